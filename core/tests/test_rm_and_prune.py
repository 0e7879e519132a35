"""``rm`` and ``prune`` remove runs that have ended: all of them, whatever is in it, and nothing else."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pai_runtime.cli import main
from pai_runtime.engines.local import run_removal
from pai_runtime.engines.local.engine import LocalRun
from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.engines.local.run_removal import remove_run
from pai_runtime.runs.errors import CannotRemove
from pai_task.folder import Folder
from tests.played_run import PlayedRun, timestamp
from tests.support import PROGRAM, callback, cli, cli_each, job, write_job

pytestmark = pytest.mark.process

AGO = {"now": 0.0, "an-hour": 3600.0, "a-week": 7 * 86400.0}


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def played(name: str, *, ago: float = 0) -> PlayedRun:
    run = PlayedRun(Path(name), worker=1)
    run.all("succeeded", exitCode=0)
    run.end("succeeded")
    run.document["ended"] = timestamp(time.time() - ago)
    run.write()
    return run


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_several_runs_are_removed_and_one_that_cannot_be_does_not_stop_the_others() -> None:
    for number in (1, 2, 3):
        played(f".pai-runs/hello-{number}")
    running = played(".pai-runs/hello-4")
    del running.document["ended"]
    running.write()
    with running.engine():
        ended = cli("rm", "hello-1", "hello-4", "no-run", ".pai-runs/hello-3", "latest")
    assert ended.returncode == 2
    assert [line.split()[1] for line in ended.stdout.splitlines()] == ["hello-1", ".pai-runs/hello-3"]
    errors = ended.stderr.splitlines()
    assert "there is no run 'no-run'" in errors[0]
    assert "pai-runtime stop .pai-runs/hello-4" in errors[1]
    assert names(".pai-runs") == ["hello-2", "hello-4"]


def test_the_latest_run_is_the_one_before_any_was_removed_and_is_named() -> None:
    for number in (1, 2, 3):
        played(f".pai-runs/hello-{number}")
    ended = cli("rm", "hello-3", "latest", "latest")
    assert [line.split()[1] for line in ended.stdout.splitlines()] == ["hello-3"]
    assert names(".pai-runs") == ["hello-1", "hello-2"]


def test_whatever_a_task_leaves_is_removed_and_nothing_that_it_leads_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    work = played("run").task_folder("worker/0") / "work"
    (work / "closed/inner").mkdir(parents=True)
    (work / "closed/inner/file").touch()
    (work / "closed/inner").chmod(0o500)
    (work / "closed").chmod(0)
    (work / "to-a-file").symlink_to(kept / "file")
    (work / "to-a-directory").symlink_to(kept)
    os.link(kept / "file", work / "linked")
    os.mkfifo(work / "fifo")
    (work / "name\nwith\x1b[31m colour").touch()
    deep = work
    while len(str(deep)) < 3900:
        deep = deep / ("d" * 200)
    deep.mkdir(parents=True)
    ended = cli("rm", "run")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not Path("run").exists()
    assert (kept / "file").exists()


@pytest.mark.parametrize("name", ["project", "project/run.json", "empty", "link", "."])
def test_what_is_no_run_is_not_removed(name: str) -> None:
    played("run")
    Path("empty").mkdir()
    Path("link").symlink_to("run")
    Path("project").mkdir()
    Path("project/run.json").write_text('{"mine": true}')
    assert cli("rm", name).returncode == 2
    assert Path("project/run.json").exists()
    assert Path("run/run.json").exists()
    assert Path("link").is_symlink()


@pytest.mark.parametrize(
    "name", [".pai-runs/..", ".pai-runs/../.pai-runs", ".pai-runs/half-1/..", "linked/mine"]
)
def test_a_path_that_only_looks_like_one_of_a_run_removes_nothing(name: str) -> None:
    Path(".pai-runs/half-1/mine").mkdir(parents=True)
    Path("mine").touch()
    Path("linked").symlink_to(".pai-runs/half-1")
    assert cli("rm", name).returncode == 2
    assert Path("mine").exists()
    assert Path(".pai-runs/half-1/mine").exists()


def test_the_directory_above_that_of_runs_is_not_one_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".pai-runs").mkdir()
    Path("mine").touch()
    monkeypatch.chdir(".pai-runs")
    assert cli("rm", "..").returncode == 2
    assert Path("../mine").exists()


def test_a_link_in_place_of_the_directory_of_runs_makes_no_runs_of_others() -> None:
    Path("home/documents").mkdir(parents=True)
    Path(".pai-runs").symlink_to("home")
    assert cli("rm", "documents").returncode == 2
    assert Path("home/documents").exists()


def test_what_takes_the_name_of_a_run_while_that_is_removed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    played("run")
    Path("mine/file").mkdir(parents=True)
    count = run_removal._size

    def swap(folder: Path) -> int:
        Path("run").rename("moved")
        Path("run").symlink_to("mine")
        return count(folder)

    monkeypatch.setattr(run_removal, "_size", swap)
    LocalRunReader(Path("run")).remove()
    assert names(".") == ["mine", "run"]
    assert names("mine") == ["file"]


@pytest.mark.parametrize("what", ["half-1", "ended-1"])
def test_a_run_that_is_being_started_or_removed_is_not_removed_as_well(what: str) -> None:
    run = played(f".pai-runs/{what}")
    if what == "half-1":
        (run.folder / "run.json").unlink()
    with run.engine():
        assert cli("rm", what).returncode == 2
    assert cli("rm", what).returncode == 0


def test_what_was_killed_before_it_began_is_removed_from_the_directory_of_runs() -> None:
    plan = Path(".pai-runs/half-1/worker/0/plan.json")
    plan.parent.mkdir(parents=True)
    plan.touch()
    shutil.copytree(".pai-runs/half-1", "half")
    first, second = cli_each(["rm", "half-1"], ["rm", "half"])
    assert (first.returncode, second.returncode) == (0, 2)
    assert not plan.exists()
    assert Path("half/worker/0/plan.json").exists()


def killed_in(method: str, job_file: Path) -> None:
    """Start a run that is killed where its engine calls a method."""
    pid = os.fork()
    if pid == 0:
        try:
            sys.argv[1:] = ["run", str(job_file), "--plain"]
            setattr(LocalRun, method, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            main()
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


@pytest.mark.parametrize(
    ("method", "state"), [("prepare", "unreadable"), ("_copy_code", "lost"), ("turn", "lost")]
)
def test_a_run_that_is_killed_before_its_tasks_start_is_listed_and_removed(
    tmp_path: Path, method: str, state: str
) -> None:
    path = write_job(tmp_path, job())
    killed_in(method, path)
    shutil.copytree(".pai-runs/test-1", ".pai-runs/test-2")
    for each in (*Path(".pai-runs").glob("*"), *Path(".pai-runs").glob("*/run.json")):
        os.utime(each, (0, 0))
    listed, removed, pruned = cli_each(["ps", "--json"], ["rm", "test-1"], ["prune", "--older-than", "1h"])
    assert [each["state"] for each in json.loads(listed.stdout)] == [state, state]
    assert (removed.returncode, removed.stderr, pruned.returncode, pruned.stderr) == (0, "", 0, "")
    assert names(".pai-runs") == []


@pytest.mark.parametrize("spoilt", [None, "", '{"mine": true}'])
def test_only_what_a_run_has_left_is_removed_from_the_directory_of_runs(spoilt: str | None) -> None:
    for name, file in (("mine", "notes/file"), ("half", "worker/0/plan.json")):
        path = Path(".pai-runs", name, file)
        path.parent.mkdir(parents=True)
        path.touch()
        if spoilt is not None:
            Path(".pai-runs", name, "run.json").write_text(spoilt)
        for each in (Path(".pai-runs", name), Path(".pai-runs")):
            os.utime(each, (0, 0))
    pruned, mine, half = cli_each(["prune", "--older-than", "1h"], ["rm", "mine"], ["rm", "half"])
    assert (pruned.returncode, pruned.stderr, mine.returncode) == (0, "", 2)
    assert half.returncode == (2 if spoilt is None else 0), "without a run.json, it has been pruned"
    assert names(".pai-runs") == ["mine"]
    assert Path(".pai-runs/mine/notes/file").exists()
    assert "KeyError" not in mine.stderr


def test_a_lost_run_is_removed_once_nothing_of_it_lives(tmp_path: Path) -> None:
    tidy = {"name": "tidy", "callbacks": [callback("taskExits", "echo > told", "read -r _ < go")]}
    worker = {"prerequisites": ["tidy"], "commands": ["mkfifo told go", "echo up"]}
    path = write_job(tmp_path, job(prerequisites=[tidy], worker=worker))
    argv = ["run", str(path), "--plain", "--out", "run", "--isolation", "none"]
    with subprocess.Popen([PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as engine:
        assert engine.stdout
        assert engine.stdout.readline() == b"up\n"
        work = tmp_path / "run/worker/0/work"
        assert (work / "told").read_text() == "\n"
        engine.kill()
    refused = cli("rm", "run")
    assert (refused.returncode, "has not ended yet" in refused.stderr) == (2, True)
    (work / "go").write_text("\n")
    _remove_once_it_has_ended("run")


def _remove_once_it_has_ended(name: str) -> None:
    while cli("rm", name).returncode != 0:
        assert Path(name).exists()
    assert not Path(name).exists()


def test_a_process_that_a_task_has_left_is_named() -> None:
    played("run")
    environment = {**os.environ, "PAI_WORK_DIR": str(Path("run/worker/0/work").absolute())}
    with subprocess.Popen(["sleep", "1000"], env=environment) as left:
        refused = cli("rm", "run")
        left.send_signal(signal.SIGKILL)
    assert f"kill {left.pid}" in refused.stderr
    assert cli("rm", "run").returncode == 0


@pytest.mark.needs("root", "mounts")
@pytest.mark.parametrize("mounted", ["run/worker/0/work/mnt", "run"])
def test_nothing_is_removed_of_a_run_in_which_something_is_mounted(tmp_path: Path, mounted: str) -> None:
    played("run").task_folder("worker/0/work/mnt")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").touch()
    source = "run" if mounted == "run" else "data"
    script = f'mount --bind {source} {mounted} && "$@"; status=$?; umount {mounted}; exit $status'
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "rm", "run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, f"mounted at {tmp_path}/{mounted}" in ended.stderr) == (2, True), ended.stderr
    assert Path("run/run.json").exists()
    assert Path("data/file").exists()


def test_what_cannot_be_removed_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Folder, name: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", f"{folder.where}/{name}")

    played("run").task_folder("worker/0")
    monkeypatch.setattr(Folder, "remove", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotRemove, match=r"run/worker: Operation not permitted; .*unshare"):
        remove_run(Path("run"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(CannotRemove, match=r"run/worker: Operation not permitted$"):
        remove_run(Path("run"))


@pytest.mark.parametrize(
    ("older", "left"),
    [
        ("30m", ["lost", "now"]),
        ("2h", ["an-hour", "lost", "now"]),
        ("6d", ["an-hour", "lost", "now"]),
        ("8d", ["a-week", "an-hour", "lost", "now"]),
    ],
)
def test_prune_removes_what_ended_so_long_ago(older: str, left: list[str]) -> None:
    for name, ago in AGO.items():
        played(f".pai-runs/{name}", ago=ago - 10 if name == "now" else ago + 10)
    lost = played(".pai-runs/lost", ago=10**6)
    del lost.document["ended"]
    lost.write()
    before = len(names(".pai-runs"))
    ended = cli("prune", "--older-than", older)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert names(".pai-runs") == left
    assert ended.stdout.splitlines()[-1].startswith(f"removed {before - len(left)} run")


def test_prune_leaves_runs_that_are_running_and_what_is_no_run() -> None:
    running = played(".pai-runs/running", ago=10**6)
    del running.document["ended"]
    running.write()
    os.utime(".pai-runs/running/run.json", (0, 0))
    Path(".pai-runs/other").mkdir()
    Path(".pai-runs/file").touch()
    with running.engine():
        assert cli("prune", "--older-than", "1d").returncode == 0
    assert names(".pai-runs") == ["file", "other", "running"]
    assert cli("prune", "--older-than", "1d").returncode == 0
    assert names(".pai-runs") == ["file", "other"]


def test_prune_needs_a_time() -> None:
    for arguments in ([], ["--older-than", "soon"]):
        assert cli("prune", *arguments).returncode == 2


@pytest.mark.parametrize("older", ["1", "0", "1.5"])
def test_prune_refuses_a_time_without_a_unit_and_removes_nothing(older: str) -> None:
    played(".pai-runs/old", ago=3600)
    ended = cli("prune", "--older-than", older)
    assert (ended.returncode, "7d" in ended.stderr) == (2, True)
    assert names(".pai-runs") == ["old"]


def test_a_dry_run_of_prune_names_what_would_be_removed_and_removes_nothing() -> None:
    played(".pai-runs/old", ago=7200)
    played(".pai-runs/young")
    ended = cli("prune", "--older-than", "1h", "--dry-run", "--yes")
    assert ended.returncode == 0
    assert ".pai-runs/old" in ended.stdout
    assert "young" not in ended.stdout
    assert names(".pai-runs") == ["old", "young"]


@pytest.mark.parametrize(
    ("options", "answer", "left"),
    [([], "y", []), ([], "n", ["old"]), ([], "", ["old"]), (["--yes"], None, [])],
)
def test_prune_asks_on_a_terminal_before_it_removes_runs(
    options: list[str], answer: str | None, left: list[str]
) -> None:
    played(".pai-runs/old", ago=7200)
    controller, terminal = os.openpty()
    argv: list[str | Path] = [PROGRAM, "prune", "--older-than", "1h", *options]
    with subprocess.Popen(argv, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal) as asking:
        if answer is not None:
            shown = b""
            while b"[y/N]" not in shown:
                shown += os.read(controller, 1000)
            assert names(".pai-runs") == ["old"]
            os.write(controller, f"{answer}\n".encode())
        asking.communicate()
    os.close(controller)
    os.close(terminal)
    assert (asking.returncode, names(".pai-runs")) == (0, left)


@pytest.mark.parametrize(
    "wrap",
    [
        [],
        pytest.param(
            ["unshare", "-U", "--map-user=64999", "--map-group=64999"],
            marks=pytest.mark.needs("user namespaces"),
        ),
    ],
)
def test_a_run_whose_runtime_was_killed_has_no_directory_that_cannot_be_looked_into(
    tmp_path: Path, wrap: list[str]
) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["echo up", "sleep 1000"]}))
    argv = ["run", str(path), "--plain", "--out", "run"]
    with subprocess.Popen(
        [*wrap, PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as engine:
        assert engine.stdout
        assert engine.stdout.readline() == b"up\n"
        engine.kill()
    closed = [each for each in Path("run").rglob("*") if each.is_dir() and not each.stat().st_mode & 0o500]
    assert closed == []
    _remove_once_it_has_ended("run")
