"""A cluster that a test plays: what JobSet, Job and the kubelets do with a run, on a stand-in server."""

from collections.abc import Callable, Mapping
from typing import Any

from pai_kubernetes.api import client, paths, pod_logs, watch
from pai_kubernetes.api.access import Access
from pai_kubernetes.api.client import Api
from pai_runtime.runs.state import Run
from tests.kubernetes import run_objects
from tests.kubernetes.api_server import ApiServer

NAMESPACE = "team-a"


class PlayedCluster:
    """A stand-in server with one run on it."""

    def __init__(self, server: ApiServer, roles: Mapping[str, int] | None = None, **of_jobset: Any) -> None:
        self.server = server
        self.api = api_of(server)
        self.jobset = server.put(paths.jobsets(NAMESPACE), run_objects.jobset(roles, **of_jobset))

    def pod(self, role: str = "worker", index: int = 0, **of_pod: Any) -> str:
        """Job makes a pod, or the kubelet changes what it says of it; its name."""
        document = run_objects.pod(role, index, **of_pod)
        self.server.put(paths.pods(NAMESPACE), document)
        return str(document["metadata"]["name"])

    def change(self, **status: Any) -> None:
        """JobSet changes its status."""
        self.server.change(paths.jobsets(NAMESPACE, run_objects.NAME), {"status": status})

    def end(self, kind: str, **status: Any) -> None:
        """JobSet says that the run is ``Completed`` or ``Failed``."""
        self.change(**{**run_objects.ended(kind), **status})


def api_of(server: ApiServer) -> Api:
    """What asks the server."""
    return Api(Access(server.url, "jane", "a kubeconfig", server.namespace), "", "lab")


def be_quick(monkeypatch: Any) -> None:
    """Let nobody wait long between two tries."""
    for module in (client, pod_logs, watch):
        monkeypatch.setattr(module, "_FIRST_PAUSE", 0.001)
        monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.002)


class PlayedView:
    """A view that does what the test wants at each look: `script` is called with the run, once per look."""

    shows_output = True

    def __init__(self, script: Callable[[Run], object] = lambda _run: None) -> None:
        self.said: list[str] = []
        self.shown: list[Run] = []
        self.has_ended = False
        self.script = script

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, run: Run) -> None:
        self.shown.append(run)
        self.script(run)

    def end(self) -> None:
        self.has_ended = True
