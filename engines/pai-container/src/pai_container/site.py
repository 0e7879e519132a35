"""Containers on this machine as the place of a run's tasks, in one network in which they have names."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from pai_container.client import LIMITS, Client, ProgramFailed
from pai_container.container import Container
from pai_container.gpus import devices_for
from pai_container.images import available_images
from pai_container.launcher import Launcher
from pai_container.networks import Network
from pai_pod.engine import CannotBundle, kept_bundle, task_images
from pai_runtime.engine import CannotRun, Job, Placement, Plan
from pai_runtime.engine.local import (
    WORK,
    Bind,
    Folder,
    LocalRequest,
    Site,
    TaskName,
    TaskSettings,
    check_storages,
    image_binds,
    placement,
)

_LONGEST_NAME = 63


class Containers(Site):
    """Containers of the tasks' images. Nothing of them is left when they have ended, however that came."""

    def __init__(self, job: Job, folder: Folder, wanted: LocalRequest, client: Client) -> None:
        super().__init__(job, folder, wanted)
        self._client = client
        self._hosts = _hosts(job)
        self._placement: Placement | None = None
        self._network: Network | None = None
        self._devices: Mapping[TaskName, Sequence[str]] = {}

    def placement(self, ports: Iterable[int]) -> Placement:
        """Return the placement of all tasks, at their names in the network."""
        found = placement(self.job, self.folder.path.name, self.wanted.user, self.folder.path, ports)
        places = {name: replace(place, host=self._hosts[name]) for name, place in found.places.items()}
        self._placement = replace(found, places=places)
        return self._placement

    def check(self, plans: Mapping[TaskName, Plan]) -> None:
        """Check the storages, and say what cannot be limited. Raises `CannotRun`."""
        for note in check_storages(plans.values(), self.wanted.storages):
            self.wanted.say(note)
        self._storages(plans, make=False)
        self._devices = devices_for(self.job, self.wanted.machine, self.wanted.say)
        self.say_not_set()
        if missing := sorted(LIMITS - self._client.limits):
            self.wanted.say(
                f"note: {self._client.kind} cannot limit {' and '.join(missing)} of containers here"
            )

    def settings(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> TaskSettings:
        """Pull the images, make the network, and return the settings of the tasks. Raises `CannotRun`."""
        values = self.all_secrets(plans, secrets)
        try:
            images = available_images(self._client, task_images(self.job, values), self.wanted.say)
            bundle = kept_bundle(self.wanted.say)
            self._network = Network(self._client, f"pai-{token_hex(5)}")
        except (CannotBundle, ProgramFailed, OSError) as error:
            raise CannotRun(f"{error}") from None
        storages = self._storages(plans, make=True)
        containers = {
            str(self.folder.path / role / str(index)): self._container(
                (role, index), images[role], bundle, storages[role, index], self._network.name
            )
            for role, index in plans
        }
        has_init = {
            str(self.folder.path / role / str(index)): bool(plan.steps_of("init"))
            for (role, index), plan in plans.items()
        }
        launcher = Launcher(self._client, self._network.lock, containers, has_init)
        return TaskSettings(
            secrets=values,
            environment={name: os.environ[name] for name in self.asked if name in os.environ},
            prefixed=False,
            shown_elsewhere=True,
            namespaces=0,
            storage={},
            has_code=self.wanted.code is not None,
            launch=launcher.launch,
        )

    def close(self) -> None:
        """Remove the network, and what is left in it."""
        if self._network is not None:
            self._network.remove()
            self._network = None

    def _container(
        self, name: TaskName, image: str, bundle: Path, storages: list[Bind], network: str
    ) -> Container:
        role, folder = self.job.roles[name[0]], self.folder.path / name[0] / str(name[1])
        ports = self._placement.places[name].ports if self._placement else {}
        return Container(
            network=network,
            host=self._hosts[name],
            image=image,
            folder=str(folder),
            bundle=bundle,
            cpu=min(role.cpu, os.cpu_count() or role.cpu),
            memory=role.memory_mb,
            shm=role.shm_mb,
            devices=self._devices.get(name, ()),
            ports=[each for some in ports.values() for each in some],
            storages=storages,
            work=str(folder / WORK) if self.wanted.code is not None else None,
        )

    def _storages(self, plans: Mapping[TaskName, Plan], *, make: bool) -> dict[TaskName, list[Bind]]:
        storages, run = self.wanted.storages, self.folder.path
        return {name: image_binds(plan, storages, run, make=make) for name, plan in plans.items()}


def _hosts(job: Job) -> dict[TaskName, str]:
    """Return the names of the tasks in their network. Raises `CannotRun` if two are the same."""
    names = {
        (role, index): f"{role.lower().replace('_', '-').strip('-')}-{index}" for role, index in job.tasks
    }
    for name, count in Counter(names.values()).items():
        if count > 1 or len(name) > _LONGEST_NAME:
            raise CannotRun(
                f"{name}: expected names of task roles that are different, and short enough, as names of"
                " hosts; rename one of the roles"
            )
    return names
