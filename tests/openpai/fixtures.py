"""What the tests of the engine for OpenPAI have in common: a stand-in for a cluster, and a user of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # other tests start faster without
    from tests.openpai.lab import Lab
    from tests.openpai.rest_server import OpenpaiServer


@pytest.fixture
def openpai_server(tmp_path: Path) -> Iterator["OpenpaiServer"]:
    from tests.openpai.rest_server import OpenpaiServer  # noqa: PLC0415 - as above

    with OpenpaiServer(tmp_path) as started:
        yield started


@pytest.fixture
def quick_openpai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask often, and as often as need be."""
    from pai_openpai.client import log_files, logs, polled, submission  # noqa: PLC0415 - as above

    for module in (polled, logs):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.02)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    for requests in (log_files, polled):
        monkeypatch.setattr(requests, "LEFT", -100_000)
    monkeypatch.setattr(submission, "LATE", 0.2)
    monkeypatch.setattr(submission, "PAUSE", 0.05)


@pytest.fixture
def openpai(
    openpai_server: "OpenpaiServer", quick_openpai: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> "Lab":
    """The user ``alice`` of the cluster, with a token in the environment."""
    from tests.openpai.lab import Lab  # noqa: PLC0415 - as above

    del quick_openpai
    monkeypatch.setenv("PAI_TOKEN", openpai_server.cluster.token("alice"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Lab(openpai_server)
