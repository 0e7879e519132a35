"""What all tasks of a run share: isolation, storages, variables and secrets."""

from collections.abc import Mapping
from dataclasses import dataclass
from secrets import token_hex

from pai_runtime.engines.local.environment import local_environment, not_set, secrets_among
from pai_runtime.engines.local.isolation import Bind
from pai_runtime.engines.local.isolation_trial import Trial, try_out
from pai_runtime.engines.local.launcher import Launcher
from pai_runtime.engines.local.request import LocalRequest
from pai_runtime.engines.local.storages import binds, check_storages, not_mounted
from pai_runtime.engines.local.task import TaskSettings
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import TaskName
from pai_runtime.runs.errors import CannotRun
from pai_runtime.task.folder import Folder
from pai_runtime.task.placeholders import platform_path
from pai_runtime.task.plan import Plan

_MOST_NAMED = 3


@dataclass
class Preparation:
    """The preparation of a run of `job` in `folder`: first `check`, then `settings`."""

    job: Job
    folder: Folder
    wanted: LocalRequest
    _isolation: int = 0
    """The namespaces that isolate tasks; 0 without isolation."""

    def check(self, plans: Mapping[TaskName, Plan]) -> None:
        """Check that this machine allows what `settings` needs, and say what may surprise people.

        Raises `CannotRun`.
        """
        for missing in check_storages(plans.values(), self.wanted.storages):
            self.wanted.say(missing)
        self._isolation = self._namespaces(plans)
        if self._isolation:
            self._binds(plans, make=False)
        for name in not_set(self._asked):
            self.wanted.say(f"the variable {name} is unset here, so the tasks do not get it")

    def settings(
        self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], launcher: Launcher
    ) -> TaskSettings:
        """Return the settings that the tasks with these plans share. Raises `CannotRun`."""
        hidden = {platform_path(name): value for name, value in secrets_among(self._asked).items()}
        return TaskSettings(
            secrets={**secrets, **_platform_secrets(plans), **hidden},
            environment=local_environment(self._asked),
            prefixed=len(plans) > 1,
            shown_elsewhere=not self.wanted.prints_output,
            namespaces=self._isolation,
            storage=self._binds(plans, make=True) if self._isolation else {},
            has_code=self.wanted.code is not None,
            launcher=launcher,
        )

    @property
    def _asked(self) -> tuple[str, ...]:
        """The variables of the user's environment that the tasks are to have."""
        return (*self.job.environment, *self.wanted.environment)

    def _namespaces(self, plans: Mapping[TaskName, Plan]) -> int:
        """Return the namespaces that isolate tasks; 0 if they are not isolated."""
        mode = self.wanted.isolation
        try:
            trial = Trial("--isolation none") if mode == "none" else try_out(self.folder.path / ".isolation")
        except OSError as error:
            raise CannotRun(
                f"cannot isolate a trial process: {error.filename}: {error.strerror}; "
                "to run tasks without isolation, use --isolation none"
            ) from None
        reason = trial.refusal
        if reason is None:
            if names := trial.read_only:
                more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
                self.wanted.say(f"note: read-only in the tasks: {', '.join(names[:_MOST_NAMED])}{more}")
            return trial.namespaces
        if mode == "required":
            raise CannotRun(f"cannot isolate tasks on this machine: {reason}")
        for line in not_mounted(plans.values(), reason):
            self.wanted.say(line)
        self.wanted.say(f"tasks are not isolated ({reason}): they can change every file that you can")
        return 0

    def _binds(self, plans: Mapping[TaskName, Plan], *, make: bool) -> dict[TaskName, list[Bind]]:
        storages, run = self.wanted.storages, self.folder.path
        try:
            return {name: binds(plan, storages, run, make=make) for name, plan in plans.items()}
        except OSError as error:
            raise CannotRun(f"the directory of a storage: {error.filename}: {error.strerror}") from None


def _platform_secrets(plans: Mapping[TaskName, Plan]) -> dict[str, str]:
    """Return the secrets that uses of plugins request, as far as a machine of one's own has them."""
    asked = {name for plan in plans.values() for use in plan.uses for name in use.secrets}
    return {platform_path("run"): token_hex(32)} if "run" in asked else {}
