"""A cluster that runs nothing: an engine as a third party would write it, played by tests."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.manifests.text import manifest_text
from pai_runtime.engine import (
    CannotEnter,
    CannotRemove,
    ClusterError,
    Engine,
    Job,
    NewRun,
    Placement,
    Plan,
    Problem,
    Problems,
    Progress,
    Rendered,
    Run,
    RunReader,
    RunRequest,
    RunTask,
    TaskVariables,
    Unreadable,
)
from pai_runtime.engine.records import LogName, Piece, TaskName
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host import own_modules
from tests.plugin_factory import Site


class SmallLog:
    """A log that is there from the beginning."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data
        self._read = 0

    def read(self, most: int) -> bytes:
        piece = self._data[self._read : self._read + most]
        self._read += len(piece)
        return piece

    def read_timed(self, most: int) -> Sequence[Piece]:
        return [(None, piece)] if (piece := self.read(most)) else []

    def size(self) -> int:
        return len(self._data)

    def is_at_end(self) -> bool:
        return True

    def tail(self, most: int) -> bytes:
        return self._data[-most:]

    def close(self) -> None:
        pass


class SmallRunReader(RunReader):
    """A run, as the cluster has it."""

    def __init__(self, cluster: SmallCluster, name: str) -> None:
        self.named = name
        self.on = "lab"
        self._cluster = cluster

    def run(self) -> Run | Unreadable:
        if self._cluster.away:
            raise ClusterError(self._cluster.away)
        return self._cluster.known.get(self.named, Unreadable("there is no such run", is_missing=True))

    def follow(self, say: Callable[[str], None]) -> None:
        del say
        self.wait(0)

    def wait(self, seconds: float) -> None:
        del seconds
        if self._cluster.to_come:
            self._cluster.known[self.named] = self._cluster.to_come.pop(0)
        else:  # nothing will come any more, so somebody loses patience
            signal.raise_signal(signal.SIGINT)

    def progress(self, task: RunTask) -> Progress | None:
        return None if task.over else Progress("command", None, 0.0)

    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        return self._cluster.records.get(task.name, {})

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> SmallLog:
        assert attempt is None
        return SmallLog(f"{log} of {task.name}", self._cluster.logs.get((task.name, log), b""))

    def variables(self, task: RunTask) -> TaskVariables:
        return TaskVariables({"POD": {"source": "platform", "value": task.name}}, self._cluster.missing)

    def cancel(self) -> str:
        self._cluster.cancelled.append(self.named)
        return ""

    def remove(self) -> int | None:
        run = self.run()
        if isinstance(run, Unreadable):
            raise CannotRemove(run.reason)
        if not run.over:
            raise CannotRemove("it is running")
        del self._cluster.known[self.named]
        return None

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        raise CannotEnter(f"enter {task.name} yourself: {argv}")


class SmallRun(NewRun):
    """A run that is not submitted."""

    def __init__(self, cluster: SmallCluster, request: RunRequest) -> None:
        self._cluster = cluster
        self._request = request

    def place(self, job: Job) -> Placement:
        self._job = job
        return example_placement(job, self._request.user)

    def check(self, plans: Mapping[TaskName, Plan], problems: Problems, *, ask: bool = True) -> None:
        if ask and self._cluster.away:
            raise ClusterError(self._cluster.away)
        self._cluster.checked.append((sorted(plans), ask))
        role = next(iter(self._job.roles.values()))
        if role.gpu:
            field = f"taskRoles.{role.name}.resourcePerInstance.gpu"
            problems.add(Problem("too-many-gpus", "this cluster has none", self._job.position, field))

    def render(
        self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], *, name: str | None = None
    ) -> Rendered:
        metadata = {"name": name or f"{self._job.name}-0123abcd"}
        script = "\n".join(plan.role for plan in plans.values()) + "\n"
        objects = [
            {"kind": "JobSet", "metadata": metadata, "spec": {"first": metadata, "second": metadata}},
            {"kind": "ConfigMap", "metadata": metadata, "data": {"script": script, "odd": "\x1b[31m\u202e"}},
        ]
        secret = {"kind": "Secret", "metadata": metadata, "stringData": dict(secrets)}
        return Rendered(manifest_text(objects), manifest_text([secret]), [f"Secret {metadata['name']}"])

    def submit(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> RunReader:
        name = f"{self._job.name}-bcdfg"
        self._cluster.submitted.append((self._request, dict(secrets)))
        tasks = tuple(RunTask(role, index, "waiting", None, 0, None, None) for role, index in plans)
        run = Run(self._job.name, "small", "job.yaml", 0.0, 0, tasks, user=self._request.user)
        self._cluster.known[name] = run
        return SmallRunReader(self._cluster, name)


class SmallCluster(Engine):
    """The cluster, and what it was asked to do."""

    def __init__(self) -> None:
        self.known: dict[str, Run | Unreadable] = {}
        self.to_come: list[Run] = []
        self.records: dict[str, Mapping[str, Any]] = {}
        self.logs: dict[tuple[str, LogName], bytes] = {}
        self.away = ""
        self.missing = ""
        self.cancelled: list[str] = []
        self.checked: list[tuple[list[TaskName], bool]] = []
        self.submitted: list[tuple[RunRequest, Mapping[str, str]]] = []

    def new_run(self, request: RunRequest) -> SmallRun:
        return SmallRun(self, request)

    def open_run(self, name: str) -> SmallRunReader:
        return SmallRunReader(self, name)

    def runs(self) -> Sequence[tuple[SmallRunReader, Run | Unreadable]]:
        if self.away:
            raise ClusterError(self.away)
        return [(self.open_run(name), run) for name, run in self.known.items()]


class Opened:
    """What opens a cluster: the one that was made last."""

    cluster = SmallCluster()


OPENS = """
@hookimpl
def pai_engine(profile):
    from tests.small_cluster import Opened
    return Opened.cluster
"""
"""The code of an engine for it."""


def install_engine(
    folder: Path, code: str, name: str = "some-cluster", id_: str = "org.example.cluster"
) -> None:
    """Have the site in a folder bring an engine, which profiles call ``cluster``."""
    Site(folder).add(id_, code, distribution=name, hooks=["pai_engine"], engine="cluster")


def find_plugins_in(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process find the distributions in a folder too, and no module that others have imported."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if each is not own_modules._FINDER])
    monkeypatch.setattr(own_modules, "_FINDER", own_modules._OwnModules())
    for module in ("one_cluster", "other_cluster", "some_cluster"):
        monkeypatch.delitem(sys.modules, module, raising=False)


def write_profiles(home: Path, text: str) -> Path:
    """The user's engine profiles, below what is ``XDG_CONFIG_HOME``."""
    path = home / "pai-runtime" / "engines.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"enginesVersion: 1\nengines:\n{text}")
    return path
