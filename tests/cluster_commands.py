"""Command lines on the small cluster; a test that imports the fixtures here has it as the profile ``lab``."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_runtime import cli as command_line
from pai_runtime.terminal import view as view_module
from pai_task.signals import STOP_SIGNALS
from tests.small_cluster import OPENS, Opened, SmallCluster, find_plugins_in, install_engine, write_profiles
from tests.support import job

NO_GPU = job(worker={"resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 8}})
"""A job that asks for what the cluster does not have."""


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallCluster:
    """The cluster of the user's profile ``lab``; who looks is ``ada``."""
    install_engine(tmp_path, OPENS)
    find_plugins_in(tmp_path / "site", monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_profiles(tmp_path / "config", "  lab:\n    engine: cluster\n")
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.setattr(view_module, "_LOOK_EVERY", 0.0)
    monkeypatch.chdir(tmp_path)
    made = SmallCluster()
    monkeypatch.setattr(Opened, "cluster", made)
    return made


class Command:
    """Runs a command line; its exit status, output and messages."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *args: str | Path) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["pai-runtime", *map(str, args)])
            try:
                status = command_line.main()
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        return status, *self._capfd.readouterr()


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield Command(capfd)
    for number, handler in before.items():  # those of a local run stay until its process ends
        signal.signal(number, handler)
