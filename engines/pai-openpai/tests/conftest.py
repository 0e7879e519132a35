"""What the tests of the client's side have in common: a stand-in for a cluster, and a profile of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_openpai.client import log_files, logs, polled, submission
from tests.openpai.lab import Lab
from tests.openpai.rest_server import OpenpaiServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OpenpaiServer]:
    with OpenpaiServer(tmp_path) as started:
        yield started


@pytest.fixture
def be_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask often, and as often as need be."""
    for module in (polled, logs):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.02)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(log_files, "LEFT", -100_000)
    monkeypatch.setattr(polled, "LEFT", -100_000)
    monkeypatch.setattr(submission, "LATE", 0.2)
    monkeypatch.setattr(submission, "PAUSE", 0.05)


@pytest.fixture
def lab(server: OpenpaiServer, be_quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The user ``alice`` of the cluster, with a token in the environment."""
    del be_quick
    monkeypatch.setenv("PAI_TOKEN", server.cluster.token("alice"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Lab(server)
