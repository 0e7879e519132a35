"""One task of a local run: its directory, its process and its attempts."""

import contextlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from pai_runtime.engines.code import Code
from pai_runtime.engines.local.code_copy import COPY, copy_code
from pai_runtime.engines.local.launch import Bind, Isolated, Launch
from pai_runtime.plan.attempt_variables import Attempt, attempt_variables
from pai_runtime.plan.environment import TaskName
from pai_runtime.runs.completion import decided_at
from pai_runtime.runs.failed_callbacks import count_failed_callbacks
from pai_runtime.runs.state import RunTask, TaskStatus
from pai_task.exit_codes import CALLBACK_FAILED, MOST_CODE, RUNTIME_ERROR, TIMEOUT, killed_by
from pai_task.exit_record import exit_record, noted, read_exit_record
from pai_task.folder import Folder
from pai_task.launch import LaunchOptions
from pai_task.layout import ATTEMPTS, PLAN, PRIVATE, RECORD, SHARED, WORK
from pai_task.outcome import Result
from pai_task.plan import EXIT_EVENTS, Plan
from pai_task.record import field, record
from pai_task.record_json import to_json
from pai_task.session import SESSIONS
from pai_task.state import read_state
from pai_task.vocabulary import Outcome, Phase

LAYERS = ".layers"
"""The folder in the run's for the kernel's files while tasks are isolated."""

_OVERDUE = LaunchOptions.exit_budget + 6 * LaunchOptions.grace
"""Maximum seconds that a supervisor takes to stop, when it uses up all of its own timeouts."""
_AT_ONCE = LaunchOptions.grace
_ROOM = 256 * 1024
"""Minimum bytes of disk for another attempt, for its records and the beginning of its logs."""
_NOT_HEARD = "the supervisor was killed before its exit callbacks had finished"


@record(frozen=True)
class TaskSettings:
    """The settings that the tasks of a run share.

    `environment` is what all of them start with. `namespaces` 0 means no isolation. `storage` has the
    binds of each task. With `has_code`, the folder of the run has a copy of the job's code. With
    `shown_elsewhere`, a task's output goes to its logs only; with `prefixed`, each line that is passed on
    starts with the task's name. `launch` starts the supervisor of the task in a folder, which is given
    secrets, as a child of this process whose end is that of the task, and returns its process id; it
    raises OSError. Or it returns a negative number of its own, by which `Site.ended` then reports the
    end. `tell` sends a signal to the task with either number. `last_words` returns what ended a task
    whose supervisor left no record; empty if unknown. With `is_elsewhere`, the child only stands for a
    supervisor on another machine: the exit code that is recorded there takes precedence over that of the
    child. `timeout_of` is whose time limit the run's timeout keeps, for people.
    """

    secrets: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    prefixed: bool
    shown_elsewhere: bool
    namespaces: int
    storage: Mapping[TaskName, Sequence[Bind]]
    has_code: bool
    launch: Callable[[Launch, Folder, Mapping[str, str]], int]
    tell: Callable[[int, int], None] = os.kill
    last_words: Callable[[Folder], str] = lambda _folder: ""
    is_elsewhere: bool = False
    timeout_of: str = ""


def shared_text(plan: Plan) -> str:
    """Return the content of the file with what the plans of all tasks share."""
    return json.dumps(to_json(plan.shared), ensure_ascii=False) + "\n"


class LocalTask:
    """One task of the run `framework`, in a folder below the run's."""

    def __init__(self, plan: Plan, framework: str, run: Folder, options: TaskSettings) -> None:
        self.name: TaskName = (plan.role, plan.index)
        self._layers = f"{LAYERS}/{plan.role}-{plan.index}"
        saving = plan.command.on_preemption
        self._overdue = _OVERDUE + (saving.seconds if saving else 0)
        self.retries = 0
        self.not_retried = False
        self.attempt = Attempt()
        self.state: TaskStatus = "waiting"
        self.code: int | None = None
        self._plan = plan
        self._framework = framework
        self._run = run
        self._options = options
        self._pid: int | None = None
        self._started: float | None = None
        self._ended: float | None = None
        self._failed_callbacks = 0
        self._overdue_at = math.inf
        self._is_overdue = self._is_told = False

    def as_run_task(self) -> RunTask:
        """Return the task as in ``run.json``."""
        role, index = self.name
        return RunTask(
            role=role,
            index=index,
            state=self.state,
            exit_code=self.code,
            retries=self.retries,
            started=self._started,
            ended=self._ended,
            failed_callbacks=self._failed_callbacks,
            not_retried=self.not_retried,
        )

    def prepare(self) -> None:
        """Write the files that the supervisor needs. Raises OSError."""
        with self._run.folder(self.label, make=True) as own:
            self._write(own)

    def prepare_retry(self, attempt: Attempt) -> None:
        """Move the files of the last attempt aside, and prepare the next one. Raises OSError."""
        with self._run.folder(self.label) as own, own.folder(ATTEMPTS, make=True) as attempts:
            attempts.remove("next")  # half of it, where an earlier try has failed
            with attempts.folder("next", make=True) as fresh:
                # First, so that a full disk leaves the last attempt as it was; and all of it anew, for a task
                # that is not isolated may have changed its plan.
                self._write(fresh)
                fresh.write("room", " " * _ROOM, sync=False)
                fresh.unlink("room")
                with attempts.folder(str(self.retries), make=True) as kept:
                    for name in own.names():
                        if name != ATTEMPTS:
                            own.move(name, kept, name)
                for name in fresh.names():
                    fresh.move(name, own, name)
            attempts.remove("next")
        self.retries += 1
        self.attempt = attempt
        self.state, self.code, self._started, self._ended = "waiting", None, None, None
        self._failed_callbacks = 0
        self.not_retried = False
        self._overdue_at = math.inf
        self._is_overdue = self._is_told = False

    def _write(self, folder: Folder) -> None:
        if self._options.namespaces:
            from pai_runtime.engines.local.isolation import make_folders  # noqa: PLC0415 - only if isolated

            make_folders(folder)
        else:
            with folder.folder(WORK, make=True) as work:
                if self._options.has_code:
                    copy_code(Code(self._run.path / COPY), work)
        plan = self._plan.to_json(whole=False)
        folder.write(PLAN, json.dumps(plan, ensure_ascii=False) + "\n", sync=False)
        try:
            self._run.link(SHARED, folder)
        except OSError:  # a file system that has no hard links, or not so many
            folder.write(SHARED, shared_text(self._plan), sync=False)

    def start(self, seconds: float | None) -> int:
        """Start the supervisor with a timeout, and return its process id. Raises OSError."""
        with self._run.folder(self.label) as own:
            self._pid = self._options.launch(self._launch(seconds), own, self._options.secrets)
        self.state, self._started = "running", time.time()
        if seconds is not None:
            self._overdue_at = time.monotonic() + seconds + self._overdue
        return self._pid

    def forget_process(self) -> None:
        """Forget the process id of an ended supervisor, which may be reused."""
        self._pid = None

    def has_ended(self, status: int, *, stopped: bool, cancelled_at: float | None) -> int:
        """Handle the end of the supervisor with this wait status, and return the task's exit code.

        `stopped` means that it was told to end; a task that had ended by itself before, and only lingered,
        has succeeded or failed all the same. `cancelled_at` is when the run was cancelled, in seconds since
        1970: who fails after that lost a peer that was told to end a moment earlier.
        """
        code = os.waitstatus_to_exitcode(status)
        self._ended = time.time()
        self.code = self._code_of_killed(-code) if code < 0 else self._code_from_elsewhere(code)
        self._failed_callbacks = count_failed_callbacks(self.record())
        by_itself = not stopped or self._had_ended(self.code, cancelled_at)
        self.state = "stopped" if not by_itself else "failed" if self.code else "succeeded"
        with contextlib.suppress(OSError):  # if it is not isolated, it may even have taken its folder away
            self._leave_record(self.code)
            self._run.unlink(f"{self.label}/{SESSIONS}")
            if self._options.namespaces:
                from pai_runtime.engines.local.isolation import clean_up  # noqa: PLC0415 - as above

                clean_up(self._run, self.label, self._layers)
        return self.code

    def cannot_start(self, code: int) -> None:
        """Mark the task as failed with `code`, because its supervisor could not be started."""
        self.state, self.code, self._ended = "failed", code, time.time()

    def stop(self, *, at_once: bool = False) -> None:
        """Tell it to end, or never to begin; what does not heed that is ended a while later.

        Told again, it would skip its exit callbacks: it is so only to end `at_once`.
        """
        if self.state == "running":
            if self._is_told and not at_once:
                return
            seconds = _AT_ONCE if self._is_told else self._overdue
            self._is_told = True  # before a signal to us comes in between
            self._tell(signal.SIGTERM)
            self._overdue_at = min(self._overdue_at, time.monotonic() + seconds)
        elif self.state == "waiting":
            self.state = "stopped"

    def end_if_overdue(self) -> None:
        """Kill a supervisor that has not ended in time."""
        if self.state == "running" and time.monotonic() >= self._overdue_at:
            self._is_overdue = True
            self._tell(signal.SIGKILL)

    def record(self) -> Mapping[str, Any]:
        """Return the exit record of the task; empty if there is none, or it is unreadable."""
        try:
            with self._run.folder(self.label) as own:
                return read_exit_record(own)
        except OSError:
            return {}

    def end_run(
        self, say: Callable[[str], None], is_late: Callable[[], bool], *, has_succeeded: bool, alone: bool
    ) -> None:
        """Call the hooks for the end of the run that are for this task, see `Plan.run_ends`."""
        if steps := self._plan.run_ends(alone=alone):
            from pai_runtime.engines.local.run_ends import call_hooks  # noqa: PLC0415 - few jobs have such
            from pai_task.interpreter import hook_argv  # noqa: PLC0415
            from pai_task.supervisor.task import Inputs  # noqa: PLC0415

            environment = {**self._options.environment, **self._variables()}
            failed = Result("failed", self.code or 0, "init", message="the task could not be started")
            text = noted(found, "") if (found := self.record()) else exit_record(failed)
            inputs = Inputs(self._plan, self._options.secrets, LaunchOptions(hook_argv=hook_argv()))
            call_hooks(inputs, steps, text, environment, say, is_late, has_succeeded=has_succeeded)

    @property
    def label(self) -> str:
        """The task's name, such as ``worker/0``, which is also the path of its folder in the run's."""
        return f"{self.name[0]}/{self.name[1]}"

    def _tell(self, number: signal.Signals) -> None:
        for each in (number, signal.SIGCONT):  # also if somebody has stopped it
            if self._pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._options.tell(self._pid, each)

    def _launch(self, seconds: float | None) -> Launch:
        prefix = f"{self.label} | " if self._options.prefixed else ""
        isolated = None
        if self._options.namespaces:
            run, layers = str(self._run.path), str(self._run.path / self._layers)
            storage = self._options.storage[self.name]
            code = str(self._run.path / COPY) if self._options.has_code else ""
            isolated = Isolated(self._options.namespaces, run, layers, storage, code)
        return Launch(
            folder=str(self._run.path / self.label),
            environment=self._options.environment,
            options=LaunchOptions(
                timeout=seconds,
                timeout_of=self._options.timeout_of,
                prefix=prefix,
                python=sys.executable,
                supervised=True,
                variables=self._variables(),
            ).to_argument(),
            silent=self._options.shown_elsewhere,
            isolated=isolated,
        )

    def _variables(self) -> Mapping[str, str]:
        return attempt_variables(self._framework, *self.name, self.attempt)

    def _code_from_elsewhere(self, code: int) -> int:
        if not self._options.is_elsewhere:
            return code
        recorded = self.record().get("exitCode")
        if isinstance(recorded, int) and 0 <= recorded <= MOST_CODE:
            return recorded
        return code or RUNTIME_ERROR  # it has not told of a success

    def _code_of_killed(self, number: int) -> int:
        """Return the exit code of a task whose supervisor was killed; what it had recorded before counts."""
        record = self.record()
        code = record.get("exitCode")
        if isinstance(code, int) and 0 <= code <= MOST_CODE:
            with contextlib.suppress(OSError), self._run.folder(self.label) as own:
                if read_state(own).get("phase") in EXIT_EVENTS:
                    record = {**record, "callbackFailureCount": 1}
                    if code == 0 and self._plan.strict_callbacks:
                        code = CALLBACK_FAILED
                        record = {**record, "exitCode": code, "outcome": "failed"}
                own.write(RECORD, noted(record, _NOT_HEARD))
            return code
        return TIMEOUT if self._is_overdue and not self._is_told else killed_by(number)

    def _had_ended(self, code: int, cancelled_at: float | None) -> bool:
        """Return whether a task already had a result when it was told to end."""
        if code == killed_by(signal.SIGTERM):  # as most, and reading all of their records takes time
            return False
        record = self.record()
        if record.get("exitCode") != code or record.get("outcome") == "cancelled":
            return False
        return code == 0 or cancelled_at is None or decided_at(record) <= cancelled_at

    def _leave_record(self, code: int) -> None:
        """Do the last duties of a killed supervisor: remove private files and write the exit record."""
        with self._run.folder(self.label) as own:
            with contextlib.suppress(OSError):
                own.remove(PRIVATE)
                own.unreserve(RECORD)
            if own.exists(RECORD):
                return
            outcome: Outcome = "cancelled" if self.state == "stopped" else "failed"
            if code == TIMEOUT and self._is_overdue:
                outcome = "timeout"
            message = "the supervisor was killed before it could record how the task ended"
            if said := self._options.last_words(own):
                message = f"{message}: {said}"
            result = Result(outcome, code, _phase(own), message=message)
            own.write(RECORD, exit_record(result))


def _phase(own: Folder) -> Phase:
    """Return the phase in which a task was when its supervisor was killed."""
    phase: Any = read_state(own).get("phase")
    known: Phase = phase if phase in get_args(Phase) else "init"
    return known
