"""``ps --all``: a user's runs, wherever their directories are, and those on the clusters of all profiles."""

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from pai_runtime.runs.noted_folders import note_folder, noted_folders
from pai_runtime.runs.state import Run, Unreadable
from tests.cluster_commands import Command, cluster, shown
from tests.played_run import PlayedRun
from tests.screen import Screen
from tests.small_cluster import SmallCluster
from tests.support import PROGRAM, job, write_job

__all__ = ["cluster", "shown"]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def run_of(user: str) -> Run:
    return Run("demo", "small", "job.yaml", 1.0, 0, (), user=user)


def links(state: Path) -> list[Path]:
    return [path for path in state.rglob("*") if not path.is_dir() or path.is_symlink()]


@pytest.mark.process
def test_runs_are_found_wherever_they_were_started(
    tmp_path: Path, shown: Command, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["true"]}))
    for name, options in ("one", []), ("two", ["--out", "mine"]), ("two", ["--out", "gone"]):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        assert shown("run", path, *options)[0] == 0
    shutil.rmtree("gone")
    monkeypatch.chdir(tmp_path / "one")
    assert shown("run", path)[0] == 0
    assert len(links(state)) == 3, "one for each place, and nothing else"
    monkeypatch.chdir("/")
    status, output, _ = shown("ps", "--all", "--json")
    expected = {tmp_path / "one/.pai-runs/test-1", tmp_path / "one/.pai-runs/test-2", tmp_path / "two/mine"}
    assert (status, {Path(each["folder"]) for each in json.loads(output)}) == (0, expected)
    assert len(links(state)) == 2, "what is gone is forgotten"


def test_the_runs_here_are_listed_once_whether_they_are_noted_or_not(tmp_path: Path, shown: Command) -> None:
    played = PlayedRun(Path(".pai-runs/demo-1"), worker=1)
    played.end("succeeded")
    for _ in range(2):
        _, output, _ = shown("ps", "--all")
        assert [line.split()[0] for line in output.splitlines()] == ["RUN", ".pai-runs/demo-1"]
        note_folder(tmp_path / ".pai-runs/demo-1")


@pytest.mark.process
@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_how_runs_in_far_directories_are_and_the_end_of_their_paths(
    tmp_path: Path, columns: int
) -> None:
    PlayedRun(tmp_path / ("deep/" * 50) / "demo-1", worker=1).end("succeeded")
    note_folder(tmp_path / ("deep/" * 50) / "demo-1")
    with closing(Screen(columns)) as screen:
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
        argv: list[str | Path] = [PROGRAM, "ps", "--all"]
        subprocess.run(argv, env=environment, stdout=screen.fd, check=True, timeout=60)
        _, line, *_ = screen.everything()
    name, job_name, state, *_ = line.split()
    assert (name[0], name[-12:], job_name, state) == ("…", "/deep/demo-1", "demo", "succeeded")
    assert len(line) <= columns


@pytest.mark.parametrize("off", ["/dev/null", "file"])
def test_nothing_is_noted_where_a_user_does_not_want_it(tmp_path: Path, state: Path, off: str) -> None:
    (state / "pai-runtime").mkdir(parents=True)
    (tmp_path / "file").touch()
    (state / "pai-runtime/runs").symlink_to(tmp_path / off)
    before = links(state)
    note_folder(tmp_path)
    assert (noted_folders(), links(state)) == ([], before)
    assert (tmp_path / "file").read_bytes() == b""


def test_what_is_noted_is_for_its_user_alone(tmp_path: Path, state: Path) -> None:
    note_folder(tmp_path)
    assert (state / "pai-runtime/runs").stat().st_mode & 0o077 == 0


def test_ones_own_runs_on_every_cluster_are_listed_with_the_profile(
    cluster: SmallCluster, shown: Command
) -> None:
    PlayedRun(Path(".pai-runs/demo-1"), worker=1).end("succeeded")
    cluster.known = {
        "hers": run_of("bob"),
        "mine": run_of("ada"),
        "odd": Unreadable("odd"),
    }
    status, output, _ = shown("ps", "--all", "--json")
    assert status == 0
    found = {(each.get("on"), each.get("run") or Path(each["folder"]).name) for each in json.loads(output)}
    assert found == {("lab", "mine"), ("lab", "odd"), (None, "demo-1")}
    lines = shown("ps", "--all")[1].splitlines()
    assert lines[0].split()[:2] == ["RUN", "ON"]
    assert ["mine", "lab"] in [line.split()[:2] for line in lines]


def test_a_user_may_have_another_name_on_a_cluster(
    cluster: SmallCluster, shown: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.known = {"hers": run_of("bob"), "mine": run_of("ada-of-the-lab")}
    monkeypatch.setattr(cluster, "user", lambda here: f"{here}-of-the-lab")
    assert [each["run"] for each in json.loads(shown("ps", "--all", "--json")[1])] == ["mine"]
    assert cluster.find_run("latest", "ada").named == "mine"


def test_where_runs_are_is_said_if_all_of_them_are_on_one_cluster(
    cluster: SmallCluster, shown: Command
) -> None:
    cluster.known = {"mine": run_of("ada")}
    titles, mine = shown("ps", "--all")[1].splitlines()
    assert (titles.split()[:2], mine.split()[:2]) == (["RUN", "ON"], ["mine", "lab"])


def test_a_cluster_that_does_not_answer_hides_no_other_runs(cluster: SmallCluster, shown: Command) -> None:
    PlayedRun(Path(".pai-runs/demo-1"), worker=1).end("succeeded")
    cluster.away = "no route to host"
    status, output, messages = shown("ps", "--all")
    assert (status, "demo-1" in output, "lab: no route to host" in messages) == (2, True, True)


@pytest.mark.parametrize("more", [["latest"], ["--on", "lab"], ["--watch"]])
def test_all_of_them_are_not_some_of_them(shown: Command, more: list[str]) -> None:
    assert shown("ps", "--all", *more)[0] == 2
