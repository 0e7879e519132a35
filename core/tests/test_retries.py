"""Failed tasks and jobs are tried again as often as the job says, and each attempt's logs are kept."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pai_document.schemas import package_schema
from pai_runtime.runs.summary import NOT_RETRIED
from tests.support import NOT_ANALYSED, PROGRAM, cli, job, write_job

pytestmark = pytest.mark.process

# Which attempt it is, a task knows only from its environment: everything else begins anew.
ATTEMPT = "echo attempt $FC_FRAMEWORK_ATTEMPT_ID.$FC_TASK_ATTEMPT_ID; ls"


def _run(folder: Path, document: dict[str, Any], *args: str) -> tuple[int, str, dict[str, Any]]:
    ended = cli("run", write_job(folder, document), "--out", folder / "run", *args)
    run: dict[str, Any] = json.loads((folder / "run" / "run.json").read_text())
    return ended.returncode, ended.stderr, run


def _outputs(task: Path) -> list[str]:
    """What each attempt wrote, in their order."""
    attempts = sorted((task / "attempts").iterdir()) if (task / "attempts").exists() else []
    return [(each / "logs/user-all/current").read_text().strip() for each in (*attempts, task)]


def _events(folder: Path) -> list[dict[str, Any]]:
    """The run's own events, without their times."""
    lines = (folder / "run" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    for event in events:
        jsonschema.validate(event, package_schema("pai_runtime.runs", "events.schema.json"))
    times = [event.pop("time") for event in events]
    assert times == sorted(times)
    return events


def test_a_failed_task_is_tried_again_while_the_others_go_on(tmp_path: Path) -> None:
    fails_once = [ATTEMPT, "touch left", 'test "$PAI_TASK_INDEX$FC_TASK_ATTEMPT_ID" != 10']
    worker = {"instances": 2, "taskRetryCount": 3, "commands": fails_once}
    code, said, run = _run(tmp_path, job(worker=worker, extras={"gangAllocation": False, **NOT_ANALYSED}))
    assert (code, run["outcome"], run["retries"]) == (0, "succeeded", 0)
    assert [(task["retries"], task["state"]) for task in run["tasks"]] == [(0, "succeeded"), (1, "succeeded")]
    assert _outputs(tmp_path / "run/worker/0") == ["attempt 0.0"]
    assert _outputs(tmp_path / "run/worker/1") == ["attempt 0.0", "attempt 0.1"]
    assert "task worker/1 failed: the command ended with exit code 1; retrying it (1 of 3)" in said
    assert _events(tmp_path) == [
        {"event": "taskRestarted", "task": "worker/1", "number": 1, "exitCode": 1},
        {"event": "decided", "exitCode": 0},
        {"event": "ended", "outcome": "succeeded"},
    ]


def test_a_task_fails_when_all_its_attempts_have(tmp_path: Path) -> None:
    worker = {"taskRetryCount": 2, "commands": [ATTEMPT, "exit $((5 + FC_TASK_ATTEMPT_ID))"]}
    code, _, run = _run(tmp_path, job(worker=worker, extras={"gangAllocation": False, **NOT_ANALYSED}))
    assert (code, run["failedTask"]) == (7, "worker/0")
    assert _outputs(tmp_path / "run/worker/0") == ["attempt 0.0", "attempt 0.1", "attempt 0.2"]


@pytest.mark.parametrize("extras", [NOT_ANALYSED, {"gangAllocation": True}])
def test_tasks_that_start_together_are_not_tried_again_alone(tmp_path: Path, extras: dict[str, Any]) -> None:
    document = job(worker={"taskRetryCount": 1, "commands": ["exit 5"]}, extras=extras)
    code, said, run = _run(tmp_path, document)
    assert (code, run["tasks"][0]["retries"]) == (5, 0)
    assert "taskRoles.worker.taskRetryCount: has no effect while the tasks start together" in said


def test_a_failed_job_is_restarted_with_all_its_tasks(tmp_path: Path) -> None:
    # The second task waits to be stopped: it must be gone before the next attempt, and be part of it.
    commands = [
        ATTEMPT,
        'test "$FC_FRAMEWORK_ATTEMPT_ID" = 1 && exit 0',
        'test "$PAI_TASK_INDEX" = 0 && exit 5',
        "sleep 1000",
    ]
    code, said, run = _run(
        tmp_path, job(jobRetryCount=3, worker={"instances": 2, "commands": commands}, extras=NOT_ANALYSED)
    )
    assert (code, run["outcome"], run["retries"]) == (0, "succeeded", 1)
    assert [task["retries"] for task in run["tasks"]] == [1, 1]
    for index in ("0", "1"):
        log = tmp_path / "run/worker" / index / "logs/user-all/current"
        assert log.read_text() == "attempt 1.0\n"
    assert "task worker/0 failed: the command ended with exit code 5; restarting the job (1 of 3)" in said
    assert _events(tmp_path) == [
        {"event": "decided", "exitCode": 5, "failedTask": "worker/0"},
        {"event": "jobRestarted", "number": 1, "failedTask": "worker/0", "exitCode": 5},
        {"event": "decided", "exitCode": 0},
        {"event": "ended", "outcome": "succeeded"},
    ]


def test_each_attempt_of_the_job_has_all_retries_of_its_tasks(tmp_path: Path) -> None:
    worker = {"taskRetryCount": 1, "commands": [ATTEMPT, "false"]}
    document = job(jobRetryCount=1, worker=worker, extras={"gangAllocation": False, **NOT_ANALYSED})
    code, _, run = _run(tmp_path, document)
    assert (code, run["outcome"]) == (1, "failed")
    expected = ["attempt 0.0", "attempt 0.1", "attempt 1.0", "attempt 1.1"]
    assert _outputs(tmp_path / "run/worker/0") == expected


def test_why_it_is_tried_again_has_the_name_of_the_failure(tmp_path: Path) -> None:
    document = job(
        jobRetryCount=1,
        worker={"commands": ["echo socket.gaierror: [Errno -2] Name or service not known", "exit 9"]},
    )
    _, said, _ = _run(tmp_path, document)
    failed = "task worker/0 failed: the command ended with exit code 9 (DnsFailure)"
    assert f"{failed}; restarting the job (1 of 1)" in said


PERMANENT = "no-such-command"


@pytest.mark.parametrize("whose", ["task", "job"])
@pytest.mark.parametrize("retry_on", [None, "retryable", "always"])
def test_a_permanent_failure_is_not_retried_unless_the_job_asks_for_that(
    tmp_path: Path, whose: str, retry_on: str | None
) -> None:
    counts = {"taskRetryCount": 1} if whose == "task" else {}
    document = job(
        jobRetryCount=1 if whose == "job" else 0,
        worker={"commands": [PERMANENT], **counts},
        extras={"gangAllocation": False, **({"retryOn": retry_on} if retry_on else {})},
    )
    code, said, run = _run(tmp_path, document)
    jsonschema.validate(run, package_schema("pai_runtime.runs", "run.schema.json"))
    always = retry_on == "always"
    (task,) = run["tasks"]
    assert (code, task["retries"], task.get("notRetried", False)) == (220, int(always), not always)
    assert "notRetried" in [event["event"] for event in _events(tmp_path)] or always
    lines = [line for line in said.splitlines() if "not retried" in line]
    if always:
        assert lines == []
    else:  # once when it happens, and once in the summary
        first, in_summary = lines
        assert "task worker/0 failed" in first
        assert NOT_RETRIED in in_summary


def test_of_a_permanent_failure_without_retries_left_there_is_nothing_to_say(tmp_path: Path) -> None:
    _, said, run = _run(tmp_path, job(worker={"commands": [PERMANENT]}))
    assert "retried" not in said
    assert "notRetried" not in run["tasks"][0]


def test_the_failure_that_came_first_says_whether_the_job_is_retried(tmp_path: Path) -> None:
    # The permanent failure of the second task, which itself is not retried, follows from that of the first.
    commands = [
        'test "$FC_FRAMEWORK_ATTEMPT_ID" = 1 && exit 0',
        'test "$PAI_TASK_INDEX" = 0 && exit 9',
        "until test -e ../../0/attempts/0/exit.yaml -a -e ../../0/exit.yaml; do sleep 0.05; done",
        PERMANENT,
    ]
    completion = {"minFailedInstances": 2}
    worker = {"instances": 2, "taskRetryCount": 1, "completion": completion, "commands": commands}
    document = job(jobRetryCount=1, worker=worker, extras={"gangAllocation": False})
    code, said, run = _run(tmp_path, document, "--isolation", "none")
    assert "task worker/1 failed: the command ended with exit code 127 (CommandNotFound); not retried" in said
    assert (code, run["retries"], run["outcome"]) == (0, 1, "succeeded")
    assert [task.get("notRetried") for task in run["tasks"]] == [None, None]


def test_the_time_limit_is_that_of_the_whole_run(tmp_path: Path) -> None:
    document = job(jobRetryCount=5, worker={"commands": ["sleep 1000"]})
    code, _, run = _run(tmp_path, document, "--timeout", "0.1s")
    assert (code, run["retries"]) == (242, 0)


@pytest.mark.needs("root", "mounts")
def test_a_full_disk_keeps_the_last_attempt_and_its_code(tmp_path: Path) -> None:
    worker = {"taskRetryCount": 3, "commands": ["cat /dev/zero > fill 2>/dev/null || exit 5"]}
    path = write_job(tmp_path, job(worker=worker, extras={"gangAllocation": False}))
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f'mount -t tmpfs -o size=1m tmpfs {shlex.quote(str(disk))} && exec "$@"'
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "run", path, "--out", disk / "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 238, ended.stderr  # the disk is full
    assert f"cannot retry task worker/0: {disk}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_attempt_has_the_secrets(tmp_path: Path) -> None:
    commands = ['test "<% $secrets.word %>" = opensesame && echo "attempt $FC_FRAMEWORK_ATTEMPT_ID"; false']
    document = job(
        jobRetryCount=1,
        secrets={"word": "opensesame"},
        worker={"commands": commands},
        extras=NOT_ANALYSED,
    )
    _run(tmp_path, document)
    assert _outputs(tmp_path / "run/worker/0") == ["attempt 0", "attempt 1"]
    assert list((tmp_path / "run").rglob("secrets.json")) == []
