"""This machine as an engine whose tasks run in containers; all else is as for local runs."""

from collections.abc import Mapping

from pai_container.client import open_client
from pai_container.site import Containers
from pai_runtime.engine import Job, RunRequest
from pai_runtime.engine.local import OPTIONS, Folder, LocalEngine, LocalRequest, NewLocalRun

_NOT_HERE = ("isolation", "share")


class ContainerEngine(LocalEngine):
    """This machine, by the `program` that is named: ``podman``, ``docker``, or ``auto`` for one of them."""

    options = tuple(option for option in OPTIONS if option.name not in _NOT_HERE)
    cannot: Mapping[str, str] = {
        **LocalEngine.cannot,
        "--isolation": "a container isolates its task",
        "--share": "what passes from the engine to a container is in the directory of the run",
    }
    prints_output = False

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def new_run(self, request: RunRequest) -> NewLocalRun:
        """Return a run that is not started yet."""
        return NewLocalRun(request, self._site)

    def _site(self, job: Job, folder: Folder, wanted: LocalRequest) -> Containers:
        return Containers(job, folder, wanted, open_client(self._program))
