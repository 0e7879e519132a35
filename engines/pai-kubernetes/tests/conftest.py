"""What all of these tests have in common."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_kubernetes.api import paths
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import be_quick
from tests.small_cluster import write_profiles


@pytest.fixture(autouse=True)
def _nothing_is_watched_any_more() -> Iterator[None]:
    """One that is not closed tries again for ever, and what it draws at random disturbs Hypothesis."""
    before = threading.enumerate()
    yield
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith(("watch ", "log ")):
            thread.join(60)
            assert not thread.is_alive(), thread.name


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs are kept that were followed."""
    path = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(path))
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A stand-in for an API server, which nobody waits for long."""
    be_quick(monkeypatch)
    with ApiServer() as started:
        yield started


@pytest.fixture
def lab(tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user ``ada`` has a profile of the cluster."""
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    node = {"metadata": {"name": "node-1"}, "status": {"allocatable": capacity, "capacity": capacity}}
    server.put(paths.nodes(), {"apiVersion": "v1", "kind": "Node", **node})
    kubeconfig = server.kubeconfig(tmp_path)
    profile = {
        "engine": "kubernetes",
        "kubeconfig": str(kubeconfig),
        "runtimeImage": "registry.example/pai:1",
    }
    write_profiles(tmp_path / "config", f"  lab: {json.dumps(profile)}\n")
    for name, value in {"XDG_CONFIG_HOME": str(tmp_path / "config"), "LOGNAME": "ada"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
