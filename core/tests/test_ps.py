"""``pai-runtime ps``: which runs there are, and what the tasks of one do."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pai_runtime import cli as command_line
from tests.played_run import PlayedRun
from tests.screen import Screen
from tests.support import PROGRAM


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ps(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    """The lines that it prints, where it succeeds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pai-runtime", "ps", *args])
        assert command_line.main() == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out.splitlines()


def runs(folder: Path) -> Path:
    """A folder with runs in every state, and with what else may be left there."""
    old = PlayedRun(folder / "old", worker=2)
    old.document["started"] = "2020-01-01T00:00:00Z"
    old.all("succeeded", exitCode=0)
    old.end("succeeded")
    new = PlayedRun(folder / "new", worker=2)
    new.retry_job(1)
    new.all("stopped", retries=1)
    new.set("worker/1", "failed", exitCode=1, retries=3)
    new.end("failed", "worker/1")
    PlayedRun(folder / "lost", worker=1).all("running")
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text('{"runVersion": 1,')
    (folder / "half" / "worker" / "0").mkdir(parents=True)
    (folder / "half" / "worker" / "0" / "plan.json").touch()
    (folder / "empty").mkdir()
    (folder / "other" / "mine").mkdir(parents=True)
    (folder / "file").touch()
    return folder


def test_each_run_has_a_line_and_those_that_are_running_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs(tmp_path / ".pai-runs")
    live = PlayedRun(tmp_path / ".pai-runs" / "live", worker=3)
    live.document["started"] = "2020-01-01T00:00:00Z"
    live.set("worker/0", "running")
    with live.engine():
        title, *lines = ps(capsys)
    assert title.split() == ["RUN", "JOB", "STATE", "STARTED", "ELAPSED", "RETRIES", "TASKS"]
    words = [re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d  ", "", line).split(maxsplit=4) for line in lines]
    assert words[0][:3] == [".pai-runs/live", "demo", "running"]
    assert words[0][4] == "1 running, 2 waiting"
    assert [line[0] for line in words[1:]][-4:-3] == [".pai-runs/old"]
    shown = {line[0].rpartition("/")[2]: line[1:] for line in words}
    assert shown["new"] == ["demo", "failed", "45s", "3        1 failed, 1 stopped"]
    assert shown["lost"] == ["demo", "lost", "1", "lost"]
    assert shown["old"][:2] == ["demo", "succeeded"]
    assert shown["old"][3] == "2 succeeded"
    by_name = {line.split()[0].rpartition("/")[2]: line for line in lines}
    assert "unreadable" in by_name["broken"]
    assert "its run.json is invalid" in by_name["broken"]
    assert by_name["half"].endswith("it has no run.json")
    assert by_name["empty"].endswith("it has no run.json")
    assert "other" not in by_name


def test_several_runs_are_those_that_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs(tmp_path / ".pai-runs")
    shown = [line.split()[:3] for line in ps(capsys, "old", "new", ".pai-runs/old")[1:]]
    assert shown == [[".pai-runs/old", "demo", "succeeded"], [".pai-runs/new", "demo", "failed"]]
    found = json.loads("".join(ps(capsys, "new", "broken", "--json")))
    assert [(each["folder"], each["state"]) for each in found] == [
        (".pai-runs/new", "failed"),
        (".pai-runs/broken", "unreadable"),
    ]


def test_json_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs(tmp_path / "runs")
    documents = {each["folder"]: each for each in json.loads("".join(ps(capsys, "runs", "--json")))}
    new = documents["runs/new"]
    assert (new["job"], new["state"], new["taskStates"], new["retries"]) == (
        "demo",
        "failed",
        {"stopped": 1, "failed": 1},
        1,
    )
    assert new["ended"] - new["started"] == 45
    assert documents["runs/lost"]["state"] == "lost"
    assert not {"runs/empty", "runs/other"} & set(documents), "an empty directory elsewhere is no run"
    assert documents["runs/half"] == {
        "folder": "runs/half",
        "state": "unreadable",
        "reason": "it has no run.json",
    }


@pytest.mark.parametrize(("args", "text"), [([], "no runs in .pai-runs"), (["."], "no runs in .")])
def test_where_there_are_no_runs_it_says_so(
    capsys: pytest.CaptureFixture[str], args: list[str], text: str
) -> None:
    assert ps(capsys, *args) == [text]


def detailed(folder: Path) -> PlayedRun:
    """A run whose tasks do all the things that a task can do."""
    played = PlayedRun(folder, worker=5, server=1)
    for index in range(4):
        played.set(f"worker/{index}", "running")
    played.progress("worker/0", "command")
    played.output("worker/0", b"epoch 1\nepoch 2 10%\r\x1b[32mepoch 2\x1b[m 20%")
    played.progress("worker/1", "taskStarts", "cars", ago=200)
    played.output(
        "worker/1", b"[Mon Feb  1 02:54:48 UTC 2021] [openpai-runtime] fetching\n", log="runtime.log"
    )
    played.progress("worker/2", "held", heldUntil=0.0, release="/there/let go")
    played.set("server/0", "failed", exitCode=3, retries=2)
    return played


def test_a_run_shows_what_each_of_its_tasks_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = detailed(tmp_path / "run")
    with played.engine():
        lines = ps(capsys, "run")
    assert lines[1].split()[:3] == ["run", "demo", "running"]
    assert lines[3].split() == ["TASK", "STATE", "PHASE", "ELAPSED", "ATTEMPTS", "LAST", "LINE"]
    shown = {line.split()[0]: line.split()[1:] for line in lines[4:10]}
    assert shown["worker/0"][:2] == ["running", "command"]
    assert shown["worker/0"][-3:] == ["epoch", "2", "20%"]
    assert shown["worker/1"][:3] == ["running", "taskStarts", "cars"]
    assert shown["worker/1"][3].startswith("3m")
    assert shown["worker/1"][-1] == "fetching"
    assert shown["worker/2"][:3] == ["running", "held", "until"]
    assert shown["worker/3"][0] == "running"
    assert shown["worker/4"] == ["waiting"]
    assert shown["server/0"] == ["failed", "exit", "code", "3", "30s", "3"]
    assert lines[10].startswith("worker/2 has failed and is held for debugging until ")
    assert lines[10].endswith("; to release it: touch '/there/let go'")
    assert len(lines) == 11


def test_the_tasks_of_a_run_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = detailed(tmp_path / "run")
    with played.engine():
        document = json.loads("".join(ps(capsys, "run", "--json")))
    tasks: dict[str, Any] = {f"{task['role']}/{task['index']}": task for task in document["tasks"]}
    assert document["taskStates"] == {"running": 4, "waiting": 1, "failed": 1}
    assert (tasks["worker/1"]["phase"], tasks["worker/1"]["use"]) == ("taskStarts", "cars")
    assert (tasks["worker/2"]["heldUntil"], tasks["worker/2"]["release"]) == (0, "/there/let go")
    assert (tasks["server/0"]["exitCode"], tasks["server/0"]["retries"]) == (3, 2)
    assert tasks["worker/0"]["lastLine"] == "epoch 2 20%"


def test_services_of_running_tasks_are_shown_with_their_addresses_or_why_they_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = PlayedRun(tmp_path / "run", worker=2)
    played.set("worker/0", "running")
    known: Any = {"addresses": {"board": "http://here:1"}, "failedServices": {"ssh": "exit code 1"}}
    for index in range(2):
        played.progress(f"worker/{index}", "command", **known)
    with played.engine():
        lines, document = ps(capsys, "run"), json.loads("".join(ps(capsys, "run", "--json")))
    assert lines[-2] == "worker/0 serves board at http://here:1"
    assert lines[-1].startswith("service 'ssh' of worker/0 failed: exit code 1; ")
    assert lines[-3].split()[:2] == ["worker/1", "waiting"]
    found = [(task["services"], task["failedServices"]) for task in document["tasks"]]
    assert found == [(known["addresses"], known["failedServices"]), ({}, {})]


def test_of_a_lost_run_no_task_is_said_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    detailed(tmp_path / "run")
    lines = ps(capsys, "run")
    assert lines[1].split()[2] == "lost"
    assert "5 lost" in lines[1]
    assert [line.split()[1] for line in lines[4:10]] == ["lost"] * 5 + ["failed"]
    assert lines[4].split()[2] == "1", "attempts; how long it has run is not known"
    assert "held" not in "".join(lines)


def test_a_run_that_cannot_be_read_is_shown_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text("{")
    assert "unreadable" in ps(capsys, ".")[1]
    assert json.loads("".join(ps(capsys, ".", "--json")))["state"] == "unreadable"


@pytest.mark.parametrize("args", [["--watch"], ["--watch", "--json"]])
def test_without_a_terminal_there_is_nothing_to_watch_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pai-runtime", "ps", ".", *args])
    assert command_line.main() == 2
    assert "--watch" in capsys.readouterr().err


@contextmanager
def watching(folder: Path, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    """`ps --watch` on a terminal."""
    with closing(Screen()) as screen:
        argv: list[str | Path] = [PROGRAM, "ps", "--watch", *args]
        environment = {**os.environ, "TERM": "xterm"}
        with subprocess.Popen(
            argv, cwd=folder, env=environment, stdin=screen.fd, stdout=screen.fd
        ) as process:
            try:
                yield process, screen
            finally:
                process.kill()


@pytest.mark.process
def test_a_run_is_watched_until_it_has_ended(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=2)
    with played.engine(), watching(tmp_path, "run") as (process, screen):
        screen.wait_for("demo: running, 1m")
        played.all("succeeded", exitCode=0)
        screen.wait_for("2 succeeded")
        played.end("succeeded")
        assert process.wait(60) == 0
        lines = screen.everything()
    assert lines[0] == "demo: succeeded, 45s: 2 succeeded"
    assert [line.split()[0] for line in lines[1:]] == ["TASK", "worker/0", "worker/1"]


@pytest.mark.process
def test_all_runs_are_watched_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / ".pai-runs").mkdir()
    with watching(tmp_path) as (process, screen):
        screen.wait_for("no runs in .pai-runs")
        for name in ("one", "two"):
            PlayedRun(tmp_path / ".pai-runs" / name, worker=1).end("succeeded")
            screen.wait_for(f".pai-runs/{name}")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        lines = screen.everything()
    assert sorted(line.split()[0] for line in lines) == [".pai-runs/one", ".pai-runs/two", "RUN"]


def test_a_folder_that_is_not_there_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["pai-runtime", "ps", "nowhere"])
    assert command_line.main() == 2
    assert capsys.readouterr().err.startswith("pai-runtime: there is no run 'nowhere'")


def test_a_directory_of_somebody_else_is_taken_for_a_run_only_among_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("tmp/theirs", ".pai-runs/theirs"):
        Path(folder).mkdir(parents=True)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "theirs" and access(path, mode))
    assert ps(capsys, "./tmp") == ["no runs in tmp"]
    assert len(ps(capsys)) == 2
