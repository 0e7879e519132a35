"""Tasks as processes of this machine: isolation, storages, variables and devices."""

import os
from collections.abc import Collection, Iterable, Mapping

from pai_runtime.engines.local.devices import device_variables, devices_of, lack_of_devices
from pai_runtime.engines.local.environment import local_environment
from pai_runtime.engines.local.isolation_trial import Trial, try_out
from pai_runtime.engines.local.launch import Bind
from pai_runtime.engines.local.launcher import Launcher
from pai_runtime.engines.local.placement import placement
from pai_runtime.engines.local.request import LocalRequest
from pai_runtime.engines.local.site import Site
from pai_runtime.engines.local.storages import binds, check_storages, not_mounted
from pai_runtime.engines.local.task import TaskSettings
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.runs.errors import CannotRun
from pai_task.folder import Folder
from pai_task.plan import Plan

_MOST_NAMED = 3


class Processes(Site):
    """This machine itself, with its programs; the supervisors are forked from one process."""

    def __init__(self, job: Job, folder: Folder, wanted: LocalRequest) -> None:
        super().__init__(job, folder, wanted)
        self._devices = devices_of(wanted.machine, os.environ)
        self._launcher = Launcher()
        self._isolation = 0  # the namespaces that isolate tasks; 0 without isolation

    @property
    def helpers(self) -> Collection[int]:  # type: ignore[override]
        """The fork server."""
        return () if self._launcher.pid is None else (self._launcher.pid,)

    def placement(self, ports: Iterable[int]) -> Placement:
        """Return the placement of all tasks at the address of this machine for itself."""
        path = self.folder.path
        devices = device_variables(self.job, self._devices, self.asked)
        return placement(self.job, path.name, self.wanted.user, path, ports, devices)

    def check(self, plans: Mapping[TaskName, Plan]) -> None:
        """Check that this machine allows what `settings` needs, and say what may surprise people.

        Raises `CannotRun`.
        """
        self._launcher.start()  # it gets ready meanwhile
        for missing in check_storages(plans.values(), self.wanted.storages):
            self.wanted.say(missing)
        self._isolation = self._namespaces(plans)
        if self._isolation:
            self._binds(plans, make=False)
        self.say_not_set()
        for missing in self._not_given_here():
            self.wanted.say(f"note: {missing}")

    def settings(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> TaskSettings:
        """Return the settings that the tasks with these plans share. Raises `CannotRun`."""
        return TaskSettings(
            secrets=self.all_secrets(plans, secrets),
            environment=local_environment(self.asked),
            prefixed=len(plans) > 1,
            shown_elsewhere=not self.wanted.prints_output,
            namespaces=self._isolation,
            storage=self._binds(plans, make=True) if self._isolation else {},
            has_code=self.wanted.code is not None,
            launch=self._launcher.launch,
        )

    def close(self) -> None:
        """End the fork server."""
        self._launcher.close()

    def _not_given_here(self) -> list[str]:
        """Return notes about what the job asks for and this machine does not provide; they stop no run."""
        names = ", ".join(self.job.docker_images())
        programs = f"this machine's programs, not those of {names}"
        missing = [f"local runs use {programs}, and all its memory and CPU"]
        if lack := lack_of_devices(self.job, self._devices):
            missing.append(lack)
        return missing

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
