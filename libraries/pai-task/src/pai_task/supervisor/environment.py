"""The environment of a task's processes, carried over from step to step and to the command."""

from __future__ import annotations

import os

from pai_task import placeholders
from pai_task.fast_json import dumps
from pai_task.layout import VARIABLES
from pai_task.memfd import ScratchFile
from pai_task.plan import PEERS, PLATFORM
from pai_task.supervisor.shell import exported, find_shell, quoted
from pai_task.variables import (
    IMAGE,
    MOST_PEERS,
    RUNTIME,
    Setting,
    Variables,
    parse_settings,
    those_that_fit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pai_task.plan import Step, UseRecord
    from pai_task.supervisor.task import Task

_ENVIRONMENT_BYTES = 8 * 1024 * 1024
"""Maximum size of the environment that a step leaves, more than the kernel takes for a process."""

_OF_ONE_STEP = {
    "PAI_ENV",
    "PAI_MASK",
    "PAI_RUNTIME_PYTHON",
    "PAI_TASK_EXIT_CODE",
    "PAI_TASK_OUTCOME",
    "PAI_TASK_PHASE",
    "PAI_USER_LOG",
}
"""Variables that each step is given anew; they are not carried over."""

_UNBUFFERED = "PYTHONUNBUFFERED"
"""By it, Python writes its output at once: each line has its time, and none is lost when it is killed."""


class Environment:
    """The current environment of a task, and its `shell`.

    A step leaves its exported variables in the file behind `exported_fd`, and its settings in that behind
    `settings_fd`. Raises `NoShell`.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._exported = ScratchFile()
        self._settings = ScratchFile()
        self.exported_fd, self.settings_fd = self._exported.fd, self._settings.fd
        self._variables = Variables(os.environ)
        shared, left_out = task.plan.shared, 0
        for values, source in (
            (shared.platform, PLATFORM),
            (shared.peers, PEERS),
            *(({each.name: each.value}, each.source) for each in task.plan.environment),
            (task.options.variables, PLATFORM),
        ):
            fit = those_that_fit(values, MOST_PEERS) if source == PEERS else those_that_fit(values)
            self._variables.update(self._filled(fit), source)
            left_out += len(values) - len(fit)
        self._variables.update({"PAI_WORK_DIR": os.getcwd()}, RUNTIME)
        if _UNBUFFERED not in self.variables:
            self._variables.update({_UNBUFFERED: "1"}, RUNTIME)
        if left_out:
            self._tell_peers_in_files(left_out)
        self.shell = find_shell(self.variables, task.options.tools, task.plan)
        if self.shell.search_path != self.variables.get("PATH", os.defpath):
            self._variables.update({"PATH": self.shell.search_path}, RUNTIME)
            task.say(f"[INFO] this image has no shell: commands run in {self.shell.path}")
        self._is_kept = False

    @property
    def variables(self) -> dict[str, str]:
        """The variables by name."""
        return self._variables.environment

    def before_step(self) -> None:
        """Empty the files in which the next step leaves its variables."""
        self._exported.write(b"")
        self._settings.write(b"")

    def after_step(self, step: Step, use: UseRecord) -> None:
        """Take over the variables that a step has left."""
        left = exported(self._left(self._exported, use, "the environment"))
        if left is not None:
            left = {name: value for name, value in left.items() if name not in _OF_ONE_STEP}
        settings: list[Setting] = []
        for setting in parse_settings(os.fsdecode(self._left(self._settings, use, "$PAI_ENV"))):
            if isinstance(setting, Setting):
                settings.append(setting)
            else:
                self._task.say(f"[WARNING] what '{use.name}' wrote to $PAI_ENV: {setting}")
        if left is not None or settings:
            self._variables.after_step(left, settings, f"{use.name}, {step.phase}")
            self._is_kept = False

    def keep(self) -> None:
        """Write down the source of each variable for ``pai-runtime variables``, without secrets.

        Values from the outside are left out, since which of them are secret is unknown.
        """
        if self._is_kept:
            return
        self._is_kept = True
        names = sorted(self.variables)
        count, sources = len(names), [self._variables.sources.get(name, IMAGE) for name in names]
        # All at once, since each text alone would take as long; none has a NUL in it, but a mask may.
        texts = [*names, *sources, *(self.variables[name] for name in names)]
        mask = self._task.logs.masks.mask
        masked = mask("\0".join(texts)).split("\0")
        if len(masked) != len(texts):
            masked = list(map(mask, texts))
        rows = zip(sources, masked[:count], masked[count : 2 * count], masked[2 * count :], strict=True)
        document: dict[str, dict[str, str]] = {}
        for source, name, shown, value in rows:
            document[name] = {"source": shown} if source == IMAGE else {"source": shown, "value": value}
        # In a pod, another container prints them, which has a user of its own; nobody else is there.
        mode = 0o600 if self._task.options.phases == "all" else 0o644
        try:
            self._task.folder.write(VARIABLES, dumps(document), mode=mode, sync=False)
        except OSError as error:
            self._task.say(f"[WARNING] cannot write variables.json: {error.strerror}")

    def _filled(self, values: Mapping[str, str]) -> dict[str, str]:
        secrets = self._task.inputs.secrets
        return {
            name: placeholders.fill(value, secrets) if "\0" in value else value
            for name, value in values.items()
        }

    def _left(self, file: ScratchFile, use: UseRecord, what: str) -> bytes:
        try:
            return file.read(_ENVIRONMENT_BYTES)
        except ValueError as error:
            self._task.say(f"[ERROR] {what} of '{use.name}' is ignored: {error}")
            file.write(b"")
            return b""

    def _tell_peers_in_files(self, left_out: int) -> None:
        """Write the variables that the environment has no room for to files."""
        inside = self._task.inside
        known = [each for each in self._task.plan.variables() if each.source in (PLATFORM, PEERS)]
        tasks, script = "tasks.json", "tasks.sh"
        inside.write(tasks, dumps({variable.name: variable.value for variable in known}))
        inside.write(script, "".join(f"{each.name}={quoted(each.value)}\n" for each in known))
        paths = {"PAI_TASKS_FILE": tasks, "PAI_TASKS_SCRIPT": script}
        self._variables.update({name: f"{inside.where}/{file}" for name, file in paths.items()}, RUNTIME)
        self._task.say(
            f"[WARNING] {left_out} variables about other tasks do not fit into the environment; "
            f"all are in $PAI_TASKS_FILE (JSON) and $PAI_TASKS_SCRIPT (to source in a shell)"
        )
