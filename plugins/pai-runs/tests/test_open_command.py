"""``pai-runtime open`` finds a service of a run by its name, and opens no address that is none of it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.played_run import PlayedRun
from tests.support import cli

pytestmark = pytest.mark.process


class Running:
    """A run that goes on, in which tasks have services."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._played = PlayedRun(folder, worker=2)
        self._played.all("running")
        for index in range(2):
            self.serve(f"worker/{index}", {})
        self.engine = self._played.engine()

    def serve(self, task: str, addresses: Mapping[str, str]) -> None:
        self._played.progress(task, "command", addresses=dict(addresses))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    running.serve("worker/0", {"board": "http://127.0.0.1:6006/x?y#z"})
    with running.engine:
        yield running


def test_the_address_of_the_only_service_is_printed_and_so_is_that_of_a_named_one(run: Running) -> None:
    for words in ([], ["board"]):
        ended = cli("open", run.folder, *words)
        assert (ended.returncode, ended.stdout) == (0, "http://127.0.0.1:6006/x?y#z\n"), ended.stderr


def test_of_an_unknown_service_and_of_several_all_are_named(run: Running) -> None:
    ended = cli("open", run.folder, "bord", "--print")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "board of worker/0" in ended.stderr
    run.serve("worker/1", {"other": "http://localhost:1"})
    ended = cli("open", run.folder)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "board of worker/0, other of worker/1" in ended.stderr
    assert cli("open", run.folder, "other").stdout == "http://localhost:1\n"


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://example.com/",
        "http://user:secret@127.0.0.1/",
        "http://127.0.0.1.example.com/",
        "http://127.0.0.1\\@example.com/",
        "--version",
        "http://127.0.0.1:1/ -x",
        "http:///",
        "",
    ],
)
def test_no_other_address_is_opened(run: Running, address: str) -> None:
    run.serve("worker/0", {"board": address})
    ended = cli("open", run.folder, "board")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "\x1b" not in ended.stderr
