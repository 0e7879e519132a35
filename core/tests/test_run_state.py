"""What is in the folder of a run is read whatever it is, and a run whose engine was killed is told apart."""

import json
import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_document.schemas import package_schema
from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import activity
from pai_runtime.runs.state import (
    Run,
    RunOutcome,
    RunTask,
    TaskStatus,
    Unreadable,
    read_run,
)
from pai_task.exit_record import read_exit_record
from pai_task.folder import Folder
from tests.played_run import PlayedRun

SCHEMA = package_schema("pai_runtime.runs", "run.schema.json")
OF_ANOTHER_ENGINE = json.dumps(Run("demo", "cluster", "job.yaml", 0.0, 0, ()).to_json())
RUNNING = RunTask("worker", 0, "running", None, 0, 0.0, None)


def test_a_run_is_read_with_its_tasks(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=2)
    played.set("worker/1", "failed", exitCode=3, retries=2, started="1970-01-01T00:01:00Z")
    played.end("failed", "worker/1")
    run = played.run
    assert (run.job, run.outcome, run.failed_task) == ("demo", "failed", "worker/1")
    assert [task.name for task in run.tasks] == ["worker/0", "worker/1"]
    failed = run.tasks[1]
    assert (failed.state, failed.exit_code, failed.retries, failed.started) == ("failed", 3, 2, 60.0)
    assert [task.over for task in run.tasks] == [False, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "it has no run.json"),
        ("", "its run.json is invalid"),
        ('{"runVersion": 1, "job": "de', "its run.json is invalid"),
        ("[]", "it does not describe a run"),
        ("{}", "it does not describe a run: field 'job' is missing"),
        (OF_ANOTHER_ENGINE, "the engine 'cluster'"),
        ("[" * 100_000, "its run.json is invalid"),
    ],
)
def test_a_folder_that_says_nothing_says_why(tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    run = read_run(tmp_path)
    assert isinstance(run, Unreadable)
    assert reason in run.reason


def test_a_folder_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    assert read_run(tmp_path / "none") == Unreadable("there is no such directory")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=5,
)


@given(
    field=st.sampled_from(["job", "engine", "started", "retries", "tasks", "ended", "outcome", "failedTask"]),
    value=JSON,
)
def test_a_wrong_field_of_a_run_never_breaks_the_reading(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: Any
) -> None:
    played = PlayedRun(tmp_path_factory.mktemp("run"), worker=1)
    played.document |= {"ended": "2026-01-01T00:00:00Z", "outcome": "failed", field: value}
    played.write()
    assert isinstance(read_run(played.folder), Run | Unreadable)


@given(
    field=st.sampled_from(["phase", "use", "since", "heldUntil", "release", "addresses", "failedServices"]),
    value=JSON,
)
def test_a_wrong_field_of_a_tasks_state_never_breaks_the_reading(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: Any
) -> None:
    played = PlayedRun(tmp_path_factory.mktemp("run"), worker=1)
    played.progress("worker/0", "command", **({field: value} if field not in ("phase", "use") else {}))
    state = json.loads((played.folder / "worker/0/state.json").read_text())
    (played.folder / "worker/0/state.json").write_text(json.dumps({**state, field: value}))
    progress = played.reader.progress(RUNNING)
    assert (
        progress is None
        or f"{progress.use}{progress.release}{progress.addresses}{progress.failed_services}".isprintable()
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"phase": "command"}',
        '{"phase": "lunch", "since": 1}',
        '{"phase": "command", "since": 1' + 400 * "0" + "}",
        "[" * 100_000,
        '{"phase": "command", "since": 1}' + " " * 64 * 1024,
    ],
)
def test_a_state_that_cannot_be_understood_is_not_known(tmp_path: Path, text: str) -> None:
    folder = PlayedRun(tmp_path).task_folder("worker/0")
    assert LocalRunReader(tmp_path).progress(RUNNING) is None
    (folder / "state.json").write_text(text)
    assert LocalRunReader(tmp_path).progress(RUNNING) is None


def test_the_state_of_a_task_with_very_many_services_is_known(tmp_path: Path) -> None:
    addresses = {f"tensorboard-{number}": "http://10.0.0.1:12345/proxy" for number in range(1000)}
    played = PlayedRun(tmp_path, worker=1)
    played.progress("worker/0", "command", addresses=addresses)
    progress = played.reader.progress(RUNNING)
    assert progress is not None
    assert progress.addresses == addresses


def test_a_task_cannot_make_who_watches_it_wait(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=1)
    played.set("worker/0", "running")
    state = played.task_folder("worker/0") / "state.json"
    os.mkfifo(state)
    writer = os.open(state, os.O_RDWR)
    assert played.reader.progress(played.run.tasks[0]) is None
    os.close(writer)
    state.unlink()
    state.symlink_to("/dev/zero")
    assert played.reader.progress(played.run.tasks[0]) is None


def test_activity_is_that_of_running_tasks_only(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=1)
    played.progress("worker/0", "taskStarts", "cars", since=5)
    assert activity(played.reader, played.run) == {"worker/0": None}
    played.all("running")
    assert activity(played.reader, played.run) == {"worker/0": Progress("taskStarts", "cars", 5)}
    assert activity(played.reader, replace(played.run, lost=True)) == {"worker/0": None}
    played.all("failed", exitCode=1)
    assert activity(played.reader, played.run) == {"worker/0": None}


def test_a_run_is_lost_when_nobody_holds_its_folder_and_it_has_not_ended(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=2)
    played.set("worker/0", "succeeded", exitCode=0)
    with played.engine():
        assert played.reader.run() == played.run
    run = played.reader.run()
    assert isinstance(run, Run)
    assert (run.state, run.over, run.lost) == ("lost", True, True)
    assert [run.state_of(task) for task in run.tasks] == ["succeeded", "lost"]
    played.end("succeeded")
    assert played.reader.run() == played.run
    assert (played.run.state, played.run.over, played.run.lost) == ("succeeded", True, False)


def test_what_is_written_is_what_the_schema_says_and_is_read_again(tmp_path: Path) -> None:
    task = RunTask("worker", 0, "failed", 3, 2, 60.0, 90.0)
    left = RunTask("worker", 1, "waiting", None, 0, None, None)
    run = Run("demo", "local", "job.yaml", 30.0, 1, (task, left))
    for each in (run, replace(run, ended=100.0, outcome="failed", failed_task="worker/0")):
        jsonschema.validate(each.to_json(), SCHEMA)
        (tmp_path / "run.json").write_text(json.dumps(each.to_json()))
        assert read_run(tmp_path) == each


def test_the_schema_has_the_words_of_the_types() -> None:
    properties, task = SCHEMA["properties"], SCHEMA["properties"]["tasks"]["items"]["properties"]
    assert tuple(properties["outcome"]["enum"]) == get_args(RunOutcome)
    assert tuple(task["state"]["enum"]) == get_args(TaskStatus)
    names = {re.sub("_(.)", lambda found: found[1].upper(), each.name) for each in fields(Run)}
    of_lists = {"lost", "stopping", "queued", "user", "note", "listedTasks"}
    assert properties.keys() == {*names, "runVersion"} - of_lists
    of_task = {re.sub("_(.)", lambda found: found[1].upper(), each.name) for each in fields(RunTask)}
    assert task.keys() == of_task - {"node", "note"}


@pytest.mark.parametrize("text", [None, "", "- 1", "a: [", "\x00", "a: 1\na: 2"])
def test_an_exit_record_that_cannot_be_read_is_empty(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "exit.yaml").write_text(text)
    with Folder.at(tmp_path) as folder:
        assert read_exit_record(folder) == {}
