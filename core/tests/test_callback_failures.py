"""A callback that fails after the command is told where people look; strict ones fail the task."""

import json
from pathlib import Path
from typing import Any

import pytest

from pai_task.exit_codes import CALLBACK_FAILED
from tests.plugin_factory import Site, uses
from tests.support import callback, cli_each, exit_record, job, write_job

pytestmark = pytest.mark.process


def _job(*callbacks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    copy = {"name": "copy", "type": "script", "callbacks": list(callbacks)}
    worker = {"prerequisites": ["copy"], **fields.pop("worker", {})}
    return job(prerequisites=[copy], worker=worker, **fields)


_FAILS = callback("taskSucceeds", "exit 7")


def test_it_is_told_at_the_end_of_the_run_and_by_ps(tmp_path: Path) -> None:
    path, run = write_job(tmp_path, _job(_FAILS)), tmp_path / "run"
    ran, shown, document, listed = cli_each(
        ("run", path, "--out", run), ("ps", run), ("ps", run, "--json"), ("ps", tmp_path, "--json")
    )
    assert ran.returncode == 0
    assert "1 callback failed" in ran.stderr
    assert f"taskSucceeds of 'copy' ({path}:8:3) ended with exit code 7" in ran.stderr
    assert "worker/0 --runtime" in ran.stderr
    assert "exit code 0; taskSucceeds copy failed" in shown.stdout
    found = json.loads(document.stdout)
    (task,) = found["tasks"]
    assert (found["failedCallbacks"], task["failedCallbacks"]) == (1, 1)
    failure = {"event": "taskSucceeds", "use": "copy", "source": f"{path}:8:3", "exitCode": 7}
    assert task["callbackFailures"] == [{**failure, "cutShort": None}]
    assert json.loads(listed.stdout)[0]["failedCallbacks"] == 1


def test_what_a_plugin_does_there_in_python_is_told_too(tmp_path: Path) -> None:
    site = Site(tmp_path)
    hook = "@hookimpl\ndef pai_task_exits(use, task):\n    raise OSError(use.name)\n"
    site.add("org.example.fails", hook, hooks=["pai_task_exits"])
    path = write_job(tmp_path, job(**uses("org.example.fails")))
    ended = site.cli("run", path, "--out", tmp_path / "run")
    assert (ended.returncode, "callback of worker/0: taskExits of '" in ended.stderr) == (0, True)


def test_what_is_ignored_is_not_told(tmp_path: Path) -> None:
    path = write_job(tmp_path, _job({**_FAILS, "failurePolicy": "ignore"}))
    (ran,) = cli_each(("run", path, "--out", tmp_path / "run", "--strict-callbacks"))
    assert (ran.returncode, "callback" in ran.stderr) == (0, False)


@pytest.mark.parametrize(
    ("extras", "options"), [({"strictCallbacks": True}, []), ({}, ["--strict-callbacks"])]
)
def test_it_fails_the_job_where_that_is_asked_for(
    tmp_path: Path, extras: dict[str, Any], options: list[str]
) -> None:
    path = write_job(tmp_path, _job(_FAILS, jobRetryCount=1, extras=extras))
    (ran,) = cli_each(("run", path, "--out", tmp_path / "run", *options))
    assert ran.returncode == CALLBACK_FAILED
    record = exit_record(tmp_path / "run/worker/0")
    assert (record["outcome"], record["originUserExitCode"]) == ("failed", 0)
    assert record["failedUse"]["use"] == "copy"
    run = json.loads((tmp_path / "run/run.json").read_text())
    assert (run["outcome"], run["retries"], run["tasks"][0]["failedCallbacks"]) == ("failed", 1, 1)


def test_the_code_of_a_command_that_failed_stays_its_own(tmp_path: Path) -> None:
    document = _job(callback("taskFails", "exit 7"), worker={"commands": ["exit 9"]})
    (ran,) = cli_each(("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--strict-callbacks"))
    assert (ran.returncode, "taskFails of 'copy'" in ran.stderr) == (9, True)


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--strict-callbacks"], CALLBACK_FAILED)])
def test_a_supervisor_that_is_killed_in_a_callback_has_not_finished_it(
    tmp_path: Path, options: list[str], code: int
) -> None:
    path = write_job(tmp_path, _job(callback("taskExits", "kill -KILL $PPID", "sleep 1000")))
    (ran,) = cli_each(("run", path, "--out", tmp_path / "run", "--isolation", "none", *options))
    assert (ran.returncode, "callback" in ran.stderr) == (code, True)
    assert exit_record(tmp_path / "run/worker/0")["callbackFailureCount"] == 1
