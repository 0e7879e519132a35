"""The engine that has a run is asked for all that is said of it: here a cluster that keeps it elsewhere."""

import json
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from pai_runtime import cli as command_line
from pai_runtime.engines.engine import GROUP, OWN, find_engine
from tests.played_run import timestamp

CLUSTER = """
import json
from pathlib import Path

from pai_runtime.runs.progress import Progress
from pai_runtime.runs.state import Run


class Log:
    def __init__(self, name, data):
        self.name, self.data, self.offset = name, data, 0

    def read(self, most):
        piece = self.data[self.offset:self.offset + most]
        self.offset += len(piece)
        return piece

    def read_timed(self, most):
        piece = self.read(most)
        return [(None, piece)] if piece else []

    def size(self):
        return len(self.data)

    def tail(self, most):
        return self.data[-most:]

    def close(self):
        pass


class RunReader:
    def __init__(self, folder):
        self.folder = folder
        kept = json.loads((folder / "cluster.json").read_text())["kept"]
        self.cluster = json.loads(Path(kept).read_text())

    def run(self):
        return Run.from_json(self.cluster["run"])

    def _pod(self, task):
        return self.cluster["pods"][task.name]

    def progress(self, task):
        return Progress("taskStarts", self._pod(task)["use"], 0.0)

    def exit_record(self, task):
        return self._pod(task)["record"]

    def log(self, task, log, attempt=None):
        return Log(f"pod {task.name}, {log}", self._pod(task)[log].encode())

    def variables(self, task):
        return {"POD": {"source": "platform", "value": task.name}}


class Cluster:
    open_run = RunReader
"""


def _distribution(folder: Path, name: str, entry: str, version: str = "1.0") -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry}\n")


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where distributions are found."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "some_cluster", raising=False)
    find_engine.cache_clear()
    return folder


@pytest.fixture
def cluster(site: Path) -> None:
    _distribution(site, "some-cluster", "cluster = some_cluster:Cluster")
    (site / "some_cluster.py").write_text(CLUSTER)


def _submitted(folder: Path, engine_name: str = "cluster") -> None:
    """A run of which the folder has no more than its name; how it goes is known elsewhere."""
    tasks = [
        {"role": "worker", "index": index, "state": "waiting", "exitCode": None, "retries": 0}
        for index in range(2)
    ]
    run: dict[str, Any] = {"runVersion": 1, "job": "demo", "engine": engine_name, "file": "job.yaml"}
    run |= {"started": timestamp(0), "retries": 0, "tasks": tasks}
    kept = folder.with_name("kept-by-the-cluster")
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "cluster.json").write_text(json.dumps({"kept": str(kept)}))
    tasks[0] |= {"state": "failed", "exitCode": 3, "started": timestamp(0), "ended": timestamp(5)}
    tasks[1] |= {"state": "running", "started": timestamp(1)}
    pods = {
        name: {
            "use": "data",
            "record": {"message": "it broke"},
            "user": f"{name} says\n",
            "runtime": "set up\n",
        }
        for name in ("worker/0", "worker/1")
    }
    kept.write_text(json.dumps({"run": run, "pods": pods}))


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Exit status, output and messages of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pai-runtime", *args])
        status = command_line.main()
    return status, *capsys.readouterr()


@pytest.mark.usefixtures("cluster")
def test_ps_shows_a_run_as_its_engine_knows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _submitted(tmp_path / "run")
    status, text, _ = shown(capsys, "ps", "run")
    assert status == 0
    rows = [line.split() for line in text.splitlines() if line.startswith("worker")]
    assert rows[0] == ["worker/0", "failed", "exit", "code", "3", "5s", "worker/0", "says"]
    assert (rows[1][:4], rows[1][-2:]) == (["worker/1", "running", "taskStarts", "data"], ["set", "up"])
    _, text, _ = shown(capsys, "ps", "--json", ".")
    (document,) = json.loads(text)
    assert (document["folder"], document["state"]) == ("run", "running")
    assert document["taskStates"] == {"failed": 1, "running": 1}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("args", "output"),
    [
        (["logs", "run", "worker/1"], "worker/1 says\n"),
        (["logs", "run"], "worker/0 | worker/0 says\nworker/1 | worker/1 says\n"),
        (["logs", "run", "worker/1", "--runtime"], "set up\n"),
        (["explain", "run", "worker/1"], "platform  POD=worker/1\n"),
    ],
)
def test_logs_and_variables_are_read_through_the_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], output: str
) -> None:
    _submitted(tmp_path / "run")
    assert shown(capsys, *args) == (0, output, "")


def _broken(site: Path) -> None:
    _distribution(site, "broken-cluster", "cluster = no_such_module")


def _twice(site: Path) -> None:
    _distribution(site, "one-cluster", "cluster = json")
    _distribution(site, "other-cluster", "cluster = json")


def _twice_by_one_name(site: Path) -> None:
    _distribution(site, "one-cluster", "cluster = json")
    _distribution(site, "one-cluster", "cluster = json", version="2.0")


def _no_engine(site: Path) -> None:
    _distribution(site, "no-cluster", "cluster = json")


def _none(_: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("install", "words"),
    [
        (_none, ["'cluster'", "not installed"]),
        (_no_engine, ["'cluster'", "open_run"]),
        (_broken, ["'cluster'", "broken-cluster", "no_such_module"]),
        (_twice, ["'cluster'", "one-cluster, other-cluster"]),
        (_twice_by_one_name, ["'cluster'", "one-cluster, one-cluster"]),
    ],
)
def test_a_run_whose_engine_cannot_be_had_is_shown_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], site: Path, install: Any, words: list[str]
) -> None:
    _submitted(tmp_path / "run")
    install(site)
    _, text, _ = shown(capsys, "ps", "--json", ".")
    (document,) = json.loads(text)
    assert document["state"] == "unreadable"
    for args in (["ps", "run"], ["logs", "run"], ["explain", "run", "worker/0"]):
        status, output, message = shown(capsys, *args)
        assert status == (0 if args[0] == "ps" else 2)
        assert all(word in output + message for word in words)
        assert "Traceback" not in message


@pytest.mark.usefixtures("cluster")
def test_no_engine_is_imported_that_has_no_run_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(capsys, "ps", ".")
    assert "some_cluster" not in sys.modules
    _submitted(tmp_path / "run")
    shown(capsys, "ps", ".")
    assert "some_cluster" in sys.modules


def test_nobody_takes_the_place_of_an_engine_of_our_own(site: Path) -> None:
    _distribution(site, "some-cluster", "local = json")
    assert find_engine("local").__name__ == OWN["local"]  # type: ignore[attr-defined]
    assert {
        each.name: each.value for each in distribution("pai-runtime").entry_points.select(group=GROUP)
    } == OWN
