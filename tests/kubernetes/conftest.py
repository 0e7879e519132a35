"""What all of these tests have in common."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import be_quick


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
