"""The live view, on a terminal: what tasks write scrolls above, how the run is stands below."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.terminal import live_view, task_output
from pai_runtime.terminal.live_view import LiveView
from pai_task.launch import Rotation
from tests.played_run import PlayedRun
from tests.screen import Screen
from tests.small_cluster import SmallCluster
from tests.support import PROGRAM, job, write_job


@pytest.fixture(autouse=True)
def _draws_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "_DRAW_EVERY", 0.0)


@pytest.fixture
def screen() -> Iterator[Screen]:
    with closing(Screen()) as screen:
        yield screen


def test_output_scrolls_above_and_the_run_stands_below(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=2, server=1), LiveView(LocalRunReader(tmp_path), screen.fd)
    view.say("running demo in .pai-runs/demo-1")
    assert screen.lines() == ["pai-runtime: running demo in .pai-runs/demo-1"]
    view.show(played.run)
    played.all("running")
    played.progress("worker/0", "command")
    played.progress("worker/1", "taskStarts", "cars", ago=200)
    for number in range(100):
        played.output("worker/0", b"line %d\n" % number)
        view.show(played.run)
    played.output("worker/0", b"30%\r40%")
    view.show(played.run)
    lines = screen.everything()
    assert lines[1:101] == [f"worker/0 | line {number}" for number in range(100)]
    job, title, *tasks = lines[101:]
    assert re.fullmatch(r"demo: running, 1m\d\ds: 3 running", job)
    assert title.split() == ["TASK", "STATE", "PHASE", "ELAPSED", "ATTEMPTS", "LAST", "LINE"]
    assert [re.sub(r"\d+m\d\ds", "…", line).split() for line in tasks] == [
        ["worker/0", "running", "command", "…", "1", "40%"],
        ["worker/1", "running", "taskStarts", "cars", "…", "…", "1"],
        ["server/0", "running", "…", "1"],
    ]


def test_while_the_run_is_stopped_each_task_says_what_it_still_does(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=4), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.all("running")
    played.progress("worker/0", "command", stopping=15, ago=200)
    played.progress("worker/1", "command", stopping=9, ago=200)
    played.progress("worker/2", "taskExits", "copy", ago=200)
    played.progress("worker/3", "taskExits", "copy", stopping=15, ago=200)
    view.show(replace(played.run, stopping=True))
    job, _, *tasks = screen.lines()
    assert job.startswith("demo: stopping, ")
    assert [re.sub(r"\d+m\d\ds", "…", line).split()[2:-2] for line in tasks] == [
        ["stopping", "command", "…"],
        ["killing", "command", "…"],
        ["taskExits", "copy", "…"],
        ["stopping", "taskExits", "copy", "…"],
    ]


def test_services_stand_below_the_tasks_as_long_as_they_run(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=3), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.all("running")
    played.progress("worker/0", "command", addresses={"board": "http://10.0.0.7:1"})
    played.progress("worker/1", "command", failedServices={"ssh": "exit code 1"})
    view.show(played.run)
    output = f"its output: pai-runtime logs {shlex.quote(str(tmp_path))} worker/1 --runtime"
    found = [
        "worker/0 serves board at http://10.0.0.7:1",
        f"service 'ssh' of worker/1 failed: exit code 1; {output}",
    ]
    assert screen.lines()[-2:] == [line[:79] for line in found]
    played.all("succeeded", exitCode=0)
    view.show(played.run)
    assert not any("board" in line for line in screen.lines()[-3:])


def test_many_services_leave_room_for_the_tasks(tmp_path: Path, screen: Screen) -> None:
    played, view = (
        PlayedRun(tmp_path / "run", worker=30),
        LiveView(LocalRunReader(tmp_path / "run"), screen.fd),
    )
    played.all("running")
    for index in range(30):
        played.progress(f"worker/{index}", "command", addresses={"ssh": f"here:{index}"})
    view.show(played.run)
    lines = screen.lines()
    shown = [line for line in lines if re.match(r"worker/\d+ +running", line)]
    assert len(shown) > 2 * len([line for line in lines[-4:] if " serves " in line]) > 0
    assert re.match(r"\d+ more services: pai-runtime ps ", lines[-1])


def test_a_callback_that_failed_is_marked(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=1), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.set("worker/0", "succeeded", exitCode=0, failedCallbacks=2)
    view.show(played.run)
    job, _, task = screen.lines()
    assert job.endswith("1 succeeded, 2 callbacks failed")
    assert "exit code 0; 2 callbacks failed" in task
    assert (screen.colour(2), screen.colour(0)) == ("brown", "default")


def test_at_the_end_everything_was_shown_and_the_block_stays(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=2), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.all("running")
    view.show(played.run)
    played.output("worker/0", b"a\nno newline")
    played.output("worker/1", b"x" * 7_000 + b"\nb\n")
    played.all("succeeded", exitCode=0)
    played.end("succeeded")
    view.show(played.run)
    view.end()
    view.tell(["the job succeeded"])
    lines = screen.everything()
    assert {"worker/0 | a", "worker/0 | no newline", "worker/1 | b"} <= set(lines)
    assert "".join(lines).count("x") >= 7_000
    assert lines[-5] == "demo: succeeded, 45s: 2 succeeded"
    assert lines[-1] == "pai-runtime: the job succeeded"
    assert sum("demo:" in line for line in lines) == 1


def test_a_job_of_one_task_has_its_output_without_prefix(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=1), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.output("worker/0", b"hello\n")
    view.show(played.run)
    assert screen.lines()[0] == "hello"


def test_nothing_is_lost_over_rotation_and_retries(tmp_path: Path, screen: Screen) -> None:
    played = PlayedRun(tmp_path, Rotation(50, 2), worker=2)
    view = LiveView(LocalRunReader(tmp_path), screen.fd)
    for number in range(60):
        played.output("worker/1", b"line %d\n" % number)
        if number % 5 == 0:
            view.show(played.run)
        if number == 30:
            view.show(played.run)
            played.new_attempt("worker/1", 'message: "it fell over"')
            played.set("worker/1", "running", retries=1)
    played.all("failed", exitCode=1)
    played.end("failed", "worker/1")
    view.show(played.run)
    view.end()
    lines = screen.everything()
    assert [line for line in lines if " | " in line] == [f"worker/1 | line {number}" for number in range(60)]


def test_what_tasks_write_cannot_break_the_block(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=2), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.all("running")
    view.show(played.run)
    for data in (
        b"10%\r20%\r30%\n",
        b"\x1b[2J\x1b[10Aup\n",
        b"\x1b]0;t\x07\xc2\x9b\x1bcgone\n",
        b"\x00\x0b\x0cend\n",
    ):
        played.output("worker/0", data)
        view.show(played.run)
    lines = screen.lines()
    assert lines[:4] == [f"worker/0 | {text}" for text in ("30%", "up", "gone", "end")]
    assert [line.split()[0] for line in lines[4:]] == ["demo:", "TASK", "worker/0", "worker/1"]


@pytest.mark.parametrize(("columns", "rows"), [(200, 50), (80, 24), (40, 10), (20, 6), (10, 3), (5, 2)])
@pytest.mark.parametrize("tasks", [1, 500])
def test_the_block_fits_the_window(tmp_path: Path, columns: int, rows: int, tasks: int) -> None:
    played = PlayedRun(tmp_path, worker=tasks)
    played.all("running")
    played.output("worker/0", "größer als das Fenster, 日本語 ".encode() * 20)
    with closing(Screen(columns, rows)) as screen:
        view = LiveView(LocalRunReader(tmp_path), screen.fd)
        for phase in ("init", "taskStarts", "command"):
            played.progress("worker/0", phase)
            view.show(played.run)
        lines = screen.everything()
        assert len(lines) <= rows * 2 // 3
        titles = [number for number, line in enumerate(lines) if line.startswith("demo"[: columns - 1])]
        assert titles == [0]


def test_of_500_tasks_those_are_shown_that_matter_and_of_the_others_how_many(
    tmp_path: Path, screen: Screen
) -> None:
    played = PlayedRun(tmp_path, worker=400, server=100)
    for task in played.document["tasks"]:
        task.update({"state": "running", "started": played.document["started"]})
    played.set("worker/111", "failed", exitCode=7)
    played.set("server/50", "running")
    played.progress("server/50", "held", heldUntil=0)
    played.progress("worker/222", "taskStarts", "cars", ago=30)
    played.progress("worker/333", "command", ago=1)
    LiveView(LocalRunReader(tmp_path), screen.fd).show(played.run)
    first = next(
        number for number, line in enumerate(screen.lines()) if line.endswith("499 running, 1 failed")
    )
    lines = screen.lines()[first:]  # below what is said of the task that is held
    assert len(lines) == 16
    shown = [line.split()[0] for line in lines[2:-2]]
    assert {"worker/111", "server/50", "worker/222", "worker/333"} <= set(shown)
    workers = sum(name.startswith("worker/") for name in shown)
    assert lines[-2:] == [
        f"worker: {400 - workers} more tasks: {400 - workers} running",
        f"server: {100 - len(shown) + workers} more tasks: {100 - len(shown) + workers} running",
    ]


def test_very_many_roles_have_one_line_for_all_that_is_not_shown(tmp_path: Path, screen: Screen) -> None:
    played = PlayedRun(tmp_path, None, **{f"role{number}": 1 for number in range(30)})
    LiveView(LocalRunReader(tmp_path), screen.fd).show(played.run)
    assert screen.lines()[-1] == "all others: 17 tasks: 17 waiting"


def test_the_window_may_be_resized(tmp_path: Path, screen: Screen) -> None:
    played, view = PlayedRun(tmp_path, worker=30), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.all("running")
    view.show(played.run)
    for columns, rows in ((60, 24), (120, 40), (50, 40)):
        screen.resize(columns, rows)
        view.show(played.run)
        played.output("worker/3", b"%d columns\n" % columns)
        view.show(played.run)
        lines = screen.lines()
        assert f"worker/3 | {columns} columns" in lines
        assert lines[-1].startswith("worker: ") or len(lines) > 30
        assert max(map(len, lines)) < columns
    view.end()
    assert [line for line in screen.everything() if " | " in line] == [
        f"worker/3 | {columns} columns" for columns in (60, 120, 50)
    ]


@pytest.mark.parametrize(("no_color", "colour"), [("", "red"), ("1", "default")])
def test_a_failed_task_is_red_unless_no_colour_is_wanted(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch, no_color: str, colour: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    played, view = PlayedRun(tmp_path, worker=1), LiveView(LocalRunReader(tmp_path), screen.fd)
    played.set("worker/0", "failed", exitCode=1)
    view.show(played.run)
    assert screen.lines()[2].startswith("worker/0")
    assert screen.colour(2) == colour


@pytest.mark.process
@pytest.mark.parametrize("options", [[], ["--plain"]], ids=["live", "plain"])
def test_a_real_run_on_a_terminal_ends_with_its_output_and_what_came_of_it(
    tmp_path: Path, options: list[str]
) -> None:
    path = write_job(tmp_path, job(worker={"instances": 2, "commands": ["echo hello; exit $PAI_TASK_INDEX"]}))
    with closing(Screen(200, 50)) as screen:
        done = subprocess.run(
            [PROGRAM, "run", *options, path],
            cwd=tmp_path,
            env={**os.environ, "TERM": "xterm"},
            stdin=screen.fd,
            stdout=screen.fd,
            stderr=screen.fd,
            timeout=100,
            check=False,
        )
        lines = screen.lines()
    assert done.returncode == 1
    assert {"worker/1 | hello", "pai-runtime: the job failed: task worker/1, exit code 1"} <= set(lines)
    assert any(line.startswith("TASK") for line in lines) == (options == [])


def test_a_run_that_was_never_shown_leaves_no_block(tmp_path: Path, screen: Screen) -> None:
    view = LiveView(LocalRunReader(tmp_path), screen.fd)
    view.say("the job cannot be run")
    view.end()
    assert screen.lines() == ["pai-runtime: the job cannot be run"]


def test_a_terminal_that_has_gone_does_not_stop_the_run(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=1)
    with closing(Screen()) as screen:
        view = LiveView(LocalRunReader(tmp_path), screen.fd)
        view.show(played.run)
    played.output("worker/0", b"unseen\n")
    view.show(played.run)
    view.end()


def test_the_output_of_more_tasks_than_files_can_be_open_is_not_shown_and_said(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_output, "getrlimit", lambda _: (10, 10))
    monkeypatch.chdir(tmp_path)
    played, view = (
        PlayedRun(tmp_path / "run", worker=6),
        LiveView(LocalRunReader(tmp_path / "run"), screen.fd),
    )
    played.output("worker/0", b"line\n")
    for _ in range(2):
        view.show(played.run)
    lines = screen.lines()
    assert "the output of 6 tasks is not shown here; to see it: pai-runtime logs run -f" in "".join(lines[:2])
    assert lines[2].startswith("demo: ")


def test_far_more_output_than_a_terminal_can_show_is_cut_at_the_end_and_said(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_view, "_MOST_AT_END", 1)
    monkeypatch.setattr(task_output, "_BYTES_A_TIME", 1000)
    monkeypatch.chdir(tmp_path)
    played, view = (
        PlayedRun(tmp_path / "run", worker=1),
        LiveView(LocalRunReader(tmp_path / "run"), screen.fd),
    )
    view.show(played.run)
    played.output("worker/0", b"line\n" * 10_000)
    view.end()
    lines = screen.everything()
    assert 200 <= lines.count("line") <= 400
    assert "pai-runtime: not all output is shown; to see all of it: pai-runtime logs run" in lines


def test_a_run_on_a_cluster_is_shown_with_its_nodes_and_why_tasks_wait(screen: Screen) -> None:
    cluster = SmallCluster()
    note = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu, so none of them can have it."
    tasks = (
        RunTask("worker", 0, "running", None, 0, time.time(), None, node="node-7"),
        *(RunTask("worker", index, "waiting", None, 0, None, None, note=note) for index in (1, 2)),
    )
    run = Run("demo", "small", "job.yaml", time.time(), 0, tasks)
    cluster.logs = {("worker/0", "user"): b"one\nhalf a line"}
    view = LiveView(cluster.open_run("demo-bcdfg"), screen.fd)
    view.show(run)
    view.show(run)
    view.end()
    lines = screen.everything()
    *above, rest, _, title, first, second, _ = lines
    assert (above[0], rest) == ("worker/0 | one", "worker/0 | half a line")
    assert f"pai-runtime: worker/1, worker/2: {note}" == "".join(above[1:])
    assert title.split()[:4] == ["TASK", "STATE", "NODE", "PHASE"]
    assert first.split()[:4] == ["worker/0", "running", "node-7", "command"]
    assert second.split()[:5] == ["worker/1", "waiting", "0/4", "nodes", "are"]
