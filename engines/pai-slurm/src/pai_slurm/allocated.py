"""An allocation as the place of a run's tasks."""

import json
import os
import pwd
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pai_runtime.engine import CannotRun, ClusterError, Job, Placement, Plan, Problems
from pai_runtime.engine.classes import replace
from pai_runtime.engine.local import (
    Folder,
    LocalRequest,
    Site,
    TaskName,
    TaskSettings,
    image_binds,
    local_environment,
    placement,
)
from pai_slurm.allocation import Allocation, Place, places_of
from pai_slurm.images import Images, role_images
from pai_slurm.shapes import shape_of
from pai_slurm.steps import MPI_BY_SSH, Steps
from pai_slurm.storages import check_mounted
from pai_slurm.submitted import CONTAINERS, NODES

if TYPE_CHECKING:
    from pai_slurm.contained import Contained


class Allocated(Site):
    """The nodes of the allocation that this process is in; a task is a step, or shares one with others.

    With `images`, tasks run in theirs. `only` is the number of a task that has the allocation alone. `limit`
    names whose time limit the run's timeout is, if it is not its own.
    """

    def __init__(
        self,
        job: Job,
        folder: Folder,
        wanted: LocalRequest,
        *,
        allocation: Allocation,
        images: Images | None,
        only: int | None = None,
        limit: str = "",
    ) -> None:
        super().__init__(job, folder, wanted)
        self.only = None if only is None else job.tasks[only]
        self._allocation = allocation
        self._images = images
        self._limit = limit
        self._places: Mapping[TaskName, Place] = {}
        self._steps: Steps | None = None

    def placement(self, ports: Iterable[int]) -> Placement:
        """Return the placement of all tasks, at the addresses of their nodes."""
        path = self.folder.path
        found = placement(self.job, path.name, self.wanted.user, path, ports, only=self.only)
        try:
            components = self._allocation.components()
            if self.only is None:
                self._places = places_of(self.job, components)
            else:
                shape = shape_of(self.job.roles[self.only[0]])
                self._places = {self.only: Place(components[0].nodes[0].name, None, shape)}
            hosts = self._allocation.addresses({place.node for place in self._places.values()})
        except ClusterError as error:
            raise CannotRun(str(error)) from None
        self._hosts = {name: hosts.get(place.node, place.node) for name, place in self._places.items()}
        in_image = _task_folder() if self._images else None
        places = {
            name: replace(
                place,
                host=self._hosts.get(name),  # that of another element of an array is unknown
                folder=in_image or place.folder,
            )
            for name, place in found.places.items()
        }
        return replace(found, places=places)

    def check(self, plans: Mapping[TaskName, Plan]) -> None:
        """Check the storages, and say what may surprise people. Raises `CannotRun`."""
        has_images = self._images is not None
        notes = check_mounted(plans.values(), self.wanted.storages, in_images=has_images)
        for note in dict.fromkeys(notes):
            self.wanted.say(note)
        self.say_not_set()
        if not has_images:
            names = ", ".join(self.job.docker_images())
            self.wanted.say(f"note: tasks use the programs of the nodes, not those of {names}")

    def settings(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> TaskSettings:
        """Return the settings that the tasks with these plans share. Raises `CannotRun`."""
        path = self.folder.path
        try:
            places = {str(path / role / str(index)): self._places[role, index] for role, index in plans}
            self._steps = Steps(
                self.folder, places, self._contained(plans, self._images) if self._images else {}
            )
            self.folder.write(NODES, json.dumps(self._nodes()), 0o600, sync=False)
        except ClusterError as error:
            raise CannotRun(str(error)) from None
        except OSError as error:
            raise CannotRun(f"{error.filename}: {error.strerror}") from None
        return TaskSettings(
            secrets=self.all_secrets(plans, secrets),
            environment=self._environment(),
            prefixed=False,
            shown_elsewhere=True,
            namespaces=0,
            storage={},
            has_code=self.wanted.code is not None,
            launch=self._steps.launch,
            tell=self._steps.tell,
            last_words=self._steps.last_words,
            is_elsewhere=True,
            timeout_of=self._limit,
        )

    def ended(self) -> Iterator[tuple[int, int]]:
        """Yield the tasks that have ended, with wait statuses, and other children."""
        children = super().ended()
        return self._steps.ended(children) if self._steps else children

    @property
    def helpers(self) -> Collection[int]:  # type: ignore[override]
        """The processes of steps that have many tasks."""
        return self._steps.groups if self._steps else ()

    def cancelled(self, number: int) -> None:
        """Take notice of SIGTERM, by which Slurm ends an allocation: it sends it to the steps as well."""
        if self._steps is not None and number == signal.SIGTERM:
            self._steps.told_by_slurm = True

    def close(self) -> None:
        """Forget the steps; the allocation is not ours to release."""
        if self._steps is not None:
            self._steps.close()

    def _environment(self) -> dict[str, str]:
        if self._images is None:
            return {**MPI_BY_SSH, **local_environment(self.asked)}
        found = {name: os.environ[name] for name in ("HOME", "PATH", *self.asked) if name in os.environ}
        user = pwd.getpwuid(os.geteuid()).pw_name  # without which ch-run does nothing
        return {**MPI_BY_SSH, "USER": user, **found}

    def _contained(self, plans: Mapping[TaskName, Plan], images: Images) -> "dict[str, Contained]":
        """Return how each task gets into its image, by its folder. Raises `CannotRun`."""
        from pai_slurm.contained import contained  # noqa: PLC0415 - as below

        problems = Problems()
        path, names = self.folder.path, role_images(self.job, images, problems)
        problems.check()
        return {
            str(path / role / str(index)): contained(
                images,
                names[role],
                str(path / role / str(index)),
                image_binds(plan, self.wanted.storages, path, make=True),
                gpu=self.job.roles[role].gpu > 0,
                oci_bundle=path / CONTAINERS / role / str(index),
            )
            for (role, index), plan in plans.items()
        }

    def _nodes(self) -> dict[str, dict[str, str]]:
        return {
            f"{role}/{index}": {"node": place.node, "group": _group(place), "host": self._hosts[role, index]}
            for (role, index), place in self._places.items()
        }


def _task_folder() -> str:
    from pai_pod.engine import paths  # noqa: PLC0415 - only what is used is imported

    return paths.TASK_FOLDER


def _group(place: Place) -> str:
    return "" if place.group is None else str(place.group)
