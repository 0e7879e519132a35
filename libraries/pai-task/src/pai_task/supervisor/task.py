"""The state of a running task, with what is read from its directory."""

from __future__ import annotations

import os

from pai_task import placeholders
from pai_task.events import EventFile
from pai_task.fast_json import loads
from pai_task.folder import Folder
from pai_task.layout import (
    LOGS,
    MASK,
    PLAN,
    PRIVATE,
    RECORD,
    RECORD_BYTES,
    SHARED,
    USER_LOG,
    WORK,
)
from pai_task.masking import Masks
from pai_task.memfd import SCRIPT_END
from pai_task.plan import Plan, PlanError
from pai_task.record import record
from pai_task.state import Journal
from pai_task.supervisor.logs import Logs
from pai_task.supervisor.loop import Loop
from pai_task.supervisor.processes import Processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pai_task.launch import LaunchOptions
    from pai_task.outcome import Result
    from pai_task.supervisor.stop import Stop
    from pai_task.vocabulary import Phase

_PLAN_BYTES = 256 * 1024 * 1024
_SECRETS_BYTES = 64 * 1024 * 1024
_MOST_NOTES = 10


@record(frozen=True)
class Inputs:
    """The input of a supervisor; `secrets` has the value of each secret by its path."""

    plan: Plan
    secrets: Mapping[str, str]
    options: LaunchOptions


class Progress:
    """The current phase of a task, and its result once that is decided."""

    phase: Phase = "init"
    result: Result | None = None
    preemption: Mapping[str, Any] | None = None
    """What came of saving the command's work, once that has been tried."""
    notes: tuple[str, ...] = ()
    """What people are told about the task beside its result."""
    at: str = ""
    """Where its command was when that was last said."""


@record(frozen=True)
class Task:
    """One task while it runs.

    All that the runtime keeps of it goes through `folder`, which the task may be unable to see; `inside` is
    what the task has in its place.
    """

    inputs: Inputs
    folder: Folder
    inside: Folder
    stop: Stop
    logs: Logs
    journal: Journal
    loop: Loop
    processes: Processes
    progress: Progress
    note: Callable[[str], None]
    """Tell people about the task, at once and in its exit record; each text once, and not many."""
    seen_at: Callable[[str], None]
    """Keep where the command is, for people who are told of other tasks; empty if that is no matter."""

    @property
    def plan(self) -> Plan:
        """The plan of the task."""
        return self.inputs.plan

    @property
    def options(self) -> LaunchOptions:
        """The launch options of the supervisor."""
        return self.inputs.options

    @property
    def pid(self) -> int:
        """The supervisor's process id as others see it."""
        return self.options.pid or os.getpid()

    def say(self, text: str) -> None:
        """Write a message of the runtime to ``runtime.log``."""
        self.logs.runtime.say(text)

    def script(self, text: str) -> bytes:
        """Return a script of the plan with the values of secrets and with the end mark for our shells."""
        return os.fsencode(placeholders.fill(text, self.inputs.secrets) + SCRIPT_END)

    @property
    def user_log(self) -> str:
        """The path of the output of the command, both streams merged, as processes of the task see it."""
        if self.options.logs is None:
            return f"{self.inside.where}/{USER_LOG}"
        return f"{self.options.logs}{USER_LOG.removeprefix(LOGS)}"

    def paths(self) -> dict[str, str]:
        """Return the variables that tell every process of the task which files it may write to."""
        return {"PAI_MASK": f"{self.inside.where}/{MASK}"}

    def end(self) -> None:
        """End all that still runs, read its last output, and remove what must not outlive the task.

        After the init steps alone, nothing is removed: the task is still to come.
        """
        self.processes.end()
        self.logs.end()
        if self.options.phases == "init":
            return
        try:
            self.inside.remove(PRIVATE)
        except OSError:
            pass


def read_inputs(folder: Folder, options: LaunchOptions) -> Inputs:
    """Read the plan and the secrets. Raises OSError, ValueError or `PlanError`."""
    text = folder.read(PLAN, _PLAN_BYTES)
    document = loads(text)
    if isinstance(document, dict) and "shared" not in document:
        document["shared"] = loads(folder.read(SHARED, _PLAN_BYTES))
    plan = Plan.from_json(document)
    secrets = _read_secrets(options.secrets_fd)
    if rb"\u0000" in text:  # as a placeholder begins; a large plan without one is not walked through
        missing = placeholders.paths(plan.to_json(whole=False)) - secrets.keys()
        if missing:
            raise PlanError(f"missing values of secrets: {', '.join(map(repr, sorted(missing)))}")
    return Inputs(plan, secrets, options)


def _read_secrets(fd: int | None) -> dict[str, str]:
    if fd is None:
        return {}
    with os.fdopen(fd, "rb") as file:
        secrets: dict[str, str] = loads(file.read(_SECRETS_BYTES))
    return secrets


def set_up(inputs: Inputs, folder: Folder, stop: Stop) -> Task:
    """Enter the task's working directory, and create what its processes need.

    Raises OSError or `CannotStart`.
    """
    options = inputs.options
    os.chdir(options.work or f"{folder.where}/{WORK}")
    inside = Folder.at(folder.where)
    try:
        os.mkdir(PRIVATE, 0o700, dir_fd=inside.fd)
    except FileExistsError:
        pass
    logs = Logs(folder, Masks(inputs.secrets.values()), options)
    loop = Loop(options.umask)
    mask_pipe = inside.fifo(MASK)
    journal = Journal(folder, EventFile(folder))
    progress = Progress()

    def shown_text(text: str) -> str:
        return "".join(each if each.isprintable() else "\ufffd" for each in logs.masks.mask(text))

    def note(text: str) -> None:
        shown = shown_text(text)
        if shown not in progress.notes and len(progress.notes) < _MOST_NOTES:
            progress.notes = (*progress.notes, shown)
            journal.add("noted", note=shown)

    def seen_at(text: str) -> None:
        shown = shown_text(text)
        if shown != progress.at:
            progress.at = shown
            journal.add("seenAt", at=shown)

    processes = Processes(
        loop,
        stop,
        logs,
        options.grace,
        on_stop=lambda number: journal.add("stopping", signal=number),
        on_note=note,
    )
    processes.listen(mask_pipe, logs)
    folder.reserve(RECORD, RECORD_BYTES)
    return Task(
        inputs=inputs,
        folder=folder,
        inside=inside,
        stop=stop,
        logs=logs,
        journal=journal,
        loop=loop,
        processes=processes,
        progress=progress,
        note=note,
        seen_at=seen_at,
    )
