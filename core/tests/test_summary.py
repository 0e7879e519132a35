"""What is said at the end of a run: what failed, where and why, and where to read more."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.runs.state import RunTask
from pai_runtime.runs.summary import summarise
from pai_runtime.runs.usage import Usage
from pai_runtime.terminal.summary import summary_lines
from pai_runtime.terminal.usage import usage_lines
from tests.played_run import PlayedRun


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(played: PlayedRun) -> list[str]:
    return list(summary_lines(played.reader, summarise(played.reader, played.run)))


def test_of_a_job_that_succeeded_it_says_where_its_logs_are(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=2)
    played.end("succeeded")
    assert said(played) == ["the job succeeded in 45s; its logs are in run"]


def test_of_a_job_that_was_cancelled_too(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.end("cancelled")
    assert said(played) == ["the job was cancelled after 45s; its logs are in run"]


@pytest.mark.parametrize("note", ["", "jobset failed due to one or more job failures\x1b[2J"])
def test_of_a_job_that_failed_without_a_task_that_is_known_to_have_it_says_so(
    tmp_path: Path, note: str
) -> None:
    played = PlayedRun(tmp_path / "run", worker=2)
    played.all("stopped", exitCode=None)
    played.end("failed")
    run = replace(played.run, note=note)
    first, why, tasks = summary_lines(played.reader, summarise(played.reader, run))
    assert first == "the job failed after 45s; its logs are in run"
    assert "\x1b" not in why
    assert note.partition("\x1b")[0] in why
    assert tasks == "  of 2 tasks: 2 stopped"


def test_of_a_job_that_failed_it_says_which_task_did_it_and_why_and_how_the_others_fared(
    tmp_path: Path,
) -> None:
    played = PlayedRun(tmp_path / "run", worker=15, server=1)
    played.all("stopped", exitCode=143)
    for index in range(12):
        played.set(f"worker/{index}", "failed", exitCode=1)
    record = 'exitCode: 1\nmessage: "the command ended\\nwith exit code 1\\u001b[2J"\noutcome: "failed"\n'
    (played.task_folder("worker/3") / "exit.yaml").write_text(record)
    played.end("failed", "worker/3")
    others = ", ".join(f"worker/{index} (exit code 1)" for index in (0, 1, 2, 4, 5, 6, 7, 8, 9, 10))
    assert said(played) == [
        "the job failed: task worker/3, exit code 1",
        "  the command endedwith exit code 1",
        "  its log: pai-runtime logs run worker/3",
        "  of 16 tasks: 12 failed, 4 stopped",
        f"  also failed: {others} and 1 more",
        "  the run took 45s",
    ]


def _record(played: PlayedRun, task: str, **fields: Any) -> None:
    record = {"outcome": "failed", "message": "the command ended", **fields}
    (played.task_folder(task) / "exit.yaml").write_text(
        "".join(f"{key}: {json.dumps(value)}\n" for key, value in record.items())
    )


def test_of_a_failure_that_is_explained_it_says_why_and_what_to_do(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.set("worker/0", "failed", exitCode=226)
    _record(
        played,
        "worker/0",
        phrase="CudaOutOfMemory",
        reason="The GPU is \x1b[31mfull.",
        matchedUserLogString="\nCUDA out of memory\nTried to",
        solution=["Use less.", "Use more GPUs."],
    )
    played.end("failed", "worker/0")
    assert said(played)[:7] == [
        "the job failed: task worker/0, exit code 226, CudaOutOfMemory",
        "  the command ended",
        "  why: The GPU is full.",
        "  it said: CUDA out of memory",
        "  what to do:",
        "  - Use less.",
        "  - Use more GPUs.",
    ]


@pytest.mark.parametrize(
    ("noted", "named"),
    [
        ([0, 1], "worker/0, worker/1, but not of worker/2"),
        ([0, 1, 2], "worker/0, worker/1, worker/2"),
        ([0], "worker/0"),
    ],
)
def test_a_note_of_most_tasks_of_a_role_names_those_that_lack_it(
    tmp_path: Path, noted: list[int], named: str
) -> None:
    played = PlayedRun(tmp_path / "run", worker=3, server=1)
    played.all("succeeded", exitCode=0)
    for index in noted:
        _record(played, f"worker/{index}", notes=["it waits"])
    played.end("succeeded")
    assert said(played)[1:] == [f"  note of {named}: it waits"]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"at": "in load (train.py:3)"},
            ["note of worker/0, worker/1, but not of worker/2 (in load (train.py:3)): n"],
        ),
        ({"at": ["\x1b[2J"]}, ["note of worker/0, worker/1, but not of worker/2 (['\\x1b[2J']): n"]),
        (
            {"notes": ["it reads"]},
            ["note of worker/0, worker/1, but not of worker/2 (it reads): n", "note of worker/2: it reads"],
        ),
    ],
)
def test_where_the_few_are_that_lack_a_note_is_told(
    tmp_path: Path, record: dict[str, Any], expected: list[str]
) -> None:
    played = PlayedRun(tmp_path / "run", worker=3)
    played.all("succeeded", exitCode=0)
    for index in (0, 1):
        _record(played, f"worker/{index}", notes=["n"])
    _record(played, "worker/2", **record)
    played.end("succeeded")
    assert said(played)[1:] == [f"  {line}" for line in expected]


def test_a_rule_that_gives_no_reason_still_shows_what_it_found_and_what_to_do(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.set("worker/0", "failed", exitCode=10)
    found = {"phrase": "NoLicence", "matchedUserLogString": "no licence", "solution": ["Ask for one."]}
    _record(played, "worker/0", reason="", **found)
    played.end("failed", "worker/0")
    assert said(played)[2:5] == ["  it said: no licence", "  what to do:", "  - Ask for one."]


@pytest.mark.parametrize("log", ["Traceback\n  KeyError: 'lr', said the program\nbye\n", "bye\n"])
def test_it_shows_the_whole_line_of_which_a_rule_asked_for_a_few_words(tmp_path: Path, log: str) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    _record(
        played,
        "worker/0",
        reason="because",
        matchedUserLogString="KeyError: 'lr'\nmore",
        errorLogs={"user": log},
    )
    played.end("failed", "worker/0")
    line = "KeyError: 'lr', said the program" if "KeyError" in log else "KeyError: 'lr'"
    assert f"  it said: {line}" in said(played)


def test_of_a_line_of_the_runtimes_log_it_shows_the_text(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    mark = "[Mon Feb  1 02:54:48 UTC 2021] [openpai-runtime]"
    log = f"{mark} start\n{mark} cat: x: No such file or directory\n{mark} [ERROR] it ended"
    _record(
        played, "worker/0", matchedPlatformLogString="] cat: x: No such file", errorLogs={"platform": log}
    )
    played.end("failed", "worker/0")
    assert "  it said: cat: x: No such file or directory" in said(played)


@pytest.mark.parametrize(
    "wrong",
    [
        {"solution": "x"},
        {"reason": [1]},
        {"matchedUserLogString": " \n"},
        {"matchedUserLogString": "x", "errorLogs": {"user": [1]}},
        {"matchedUserLogString": "x", "errorLogs": "x"},
    ],
)
def test_a_record_with_something_else_in_it_is_no_reason_to_fail(tmp_path: Path, wrong: Any) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.set("worker/0", "failed", exitCode=1)
    _record(played, "worker/0", **{"reason": "because", **wrong})
    played.end("failed", "worker/0")
    assert said(played)[0] == "the job failed: task worker/0, exit code 1"


def test_tasks_that_fell_with_the_first_are_told_apart_from_those_that_failed_by_themselves(
    tmp_path: Path,
) -> None:
    played = PlayedRun(tmp_path / "run", worker=4)
    played.all("failed", exitCode=1)
    for index in (1, 3):
        _record(played, f"worker/{index}", becauseOfPeer=True)
    played.end("failed", "worker/0")
    lines = said(played)
    assert "  also failed: worker/2 (exit code 1)" in lines
    assert "  failed because worker/0 failed: worker/1 (exit code 1), worker/3 (exit code 1)" in lines


def test_of_a_job_that_succeeded_it_names_the_tasks_that_failed_on_the_way(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=13)
    for index in range(12):
        played.set(f"worker/{index}", "failed", exitCode=1)
    _record(played, "worker/0", phrase="Full", reason="no room")
    played.end("succeeded")
    lines = said(played)
    assert lines[1:3] == [
        "  worker/0 failed, exit code 1, Full: no room",
        "  worker/1 failed, exit code 1: it left no exit record",
    ]
    assert lines[-1] == "  2 more failed"


def test_of_a_setup_that_failed_it_shows_what_the_setup_wrote_last(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    for number in range(8):
        line = b"[Mon Feb  1 02:54:48 UTC 2021] [openpai-runtime] \x1b[31mline %d\n" % number
        played.output("worker/0", line, log="runtime.log")
    (played.folder / "worker/0/exit.yaml").write_text('outcome: "setup-failed"\nmessage: "no tool"\n')
    played.set("worker/0", "failed", exitCode=240)
    played.end("failed", "worker/0")
    assert said(played) == [
        "the job failed: task worker/0, exit code 240",
        "  no tool",
        *(f"  | line {number}" for number in range(3, 8)),
        "  its log: pai-runtime logs run worker/0 --runtime",
        "  the run took 45s",
    ]


@pytest.mark.parametrize("phrase", ["", "NoLicence"])
def test_of_a_failure_that_nothing_explains_it_shows_what_the_command_wrote_last(
    tmp_path: Path, phrase: str
) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.output("worker/0", b"".join(b"\x1b[31mline %d\n" % number for number in range(8)))
    _record(played, "worker/0", exitCode=3, phrase=phrase)
    played.set("worker/0", "failed", exitCode=3)
    played.end("failed", "worker/0")
    shown = [line for line in said(played) if line.startswith("  | ")]
    assert shown == ([] if phrase else [f"  | line {number}" for number in range(3, 8)])


def test_of_a_failure_that_nothing_explains_the_most_likely_line_is_marked_as_a_guess(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    steps = b"".join(b"step %d\n" % number for number in range(6))
    played.output("worker/0", b"cannot reach the licence server\n" + steps)
    _record(played, "worker/0", exitCode=3, phrase="")
    played.set("worker/0", "failed", exitCode=3)
    played.end("failed", "worker/0")
    shown = [line for line in said(played) if line.startswith(("  | ", "  ?"))]
    assert shown[:3] == ["  ? cannot reach the licence server", "  | …", "  | step 1"]
    assert shown[-1].startswith("  ?: a guess ")


def test_it_says_what_was_restarted(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=3)
    played.retry_job(1)
    for index, retries in enumerate((1, 2, 4)):
        played.set(f"worker/{index}", "succeeded", exitCode=0, retries=retries)
    played.end("succeeded")
    assert said(played)[1:] == [
        "  the job was restarted once",
        "  restarted: worker/1 once, worker/2 3 times",
    ]


def test_it_says_where_services_were_found(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=12)
    for index in range(12):
        played.progress(f"worker/{index}", "ended", addresses={"shell": f"ssh:{index}"} if index else {})
    played.end("succeeded")
    found = ", ".join(f"shell at ssh:{index} in worker/{index}" for index in range(1, 11))
    assert said(played)[1:] == [f"  services during the run: {found} and 1 more"]


def test_services_that_failed_in_the_same_way_are_one_line(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=12)
    for index in range(12):
        why = ["it ended before it was ready", *["not ready after 9 s"] * 11][index]
        played.progress(f"worker/{index}", "ended", failedServices={"board": why})
    played.end("succeeded")
    others = ", ".join(f"worker/{index}" for index in range(1, 11))
    logs = "its output: pai-runtime logs run"
    assert said(played)[1:] == [
        f"  service 'board' of worker/0 failed: it ended before it was ready; {logs} worker/0 --runtime",
        f"  service 'board' of {others} and 1 more failed: not ready after 9 s; {logs} worker/1 --runtime",
    ]


def test_of_many_services_that_failed_the_first_are_named(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    failed = {f"s{number}": "not ready after 9 s" for number in range(11)}
    played.progress("worker/0", "ended", failedServices=failed)
    played.end("succeeded")
    assert said(played)[-1] == "  1 more service failed"
    assert len(said(played)) == 12


def test_a_task_that_left_nothing_is_told_as_such(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.end("failed", "worker/0")
    assert said(played)[1] == "  it left no exit record"


def _failure(event: str, use: str, code: int = 1, **more: str) -> dict[str, Any]:
    source = {"plugin": "a.b", "distribution": "d 1", "source": "job.yaml:6:5"}
    return {"phase": event, "exitCode": code, "use": use, **source, **more}


def test_callbacks_that_failed_are_named_with_their_task_and_where_they_stand(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=2)
    played.set("worker/0", "succeeded", exitCode=0)
    played.set("worker/1", "succeeded", exitCode=0, failedCallbacks=5)
    found = [
        _failure("taskSucceeds", "co\x1b[2Jpy", 7),
        _failure("taskExits", "b", 137, cutShort="stopped"),
        _failure("taskExits", "a", 143, cutShort="skipped"),
    ]
    _record(played, "worker/1", outcome="ok", callbackFailureCount=5, callbackFailures=found)
    played.end("succeeded")
    assert said(played) == [
        "the job succeeded in 45s, but 5 callbacks failed; its logs are in run",
        "  callback of worker/1: taskSucceeds of 'copy' (job.yaml:6:5) ended with exit code 7",
        "  callback of worker/1: taskExits of 'b' (job.yaml:6:5) was stopped, as the task had to end",
        "  callback of worker/1: taskExits of 'a' (job.yaml:6:5) was skipped, as the task had to end",
        "  2 more callbacks failed",
        "  log of callbacks: pai-runtime logs run worker/1 --runtime",
    ]


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_they_are_named_however_the_job_ended(tmp_path: Path, outcome: str) -> None:
    played = PlayedRun(tmp_path / "run", worker=12)
    played.all("stopped", exitCode=143, failedCallbacks=1)
    for task in played.run.tasks:
        _record(played, task.name, callbackFailures=[_failure("taskExits", "copy")])
    played.end(outcome, "worker/0" if outcome == "failed" else None)
    lines = said(played)
    assert sum("taskExits of 'copy'" in line for line in lines) == 10
    last = ["  2 more callbacks failed", "  log of callbacks: pai-runtime logs run --runtime"]
    assert lines[-3:] == [*last, "  the run took 45s"] if outcome == "failed" else lines[-2:] == last


@pytest.mark.parametrize("wrong", [None, "x", [1], [{}], [{"phase": "x"}], [_failure("x", "a")], [[]]])
def test_what_a_record_says_wrongly_of_callbacks_is_only_counted(tmp_path: Path, wrong: Any) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.set("worker/0", "succeeded", exitCode=0, failedCallbacks=1)
    _record(played, "worker/0", outcome="ok", callbackFailures=wrong)
    played.end("succeeded")
    assert said(played)[1] == "  1 more callback failed"


def test_of_a_job_that_a_callback_failed_it_shows_what_the_callback_wrote(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.set("worker/0", "failed", exitCode=227, failedCallbacks=1)
    played.output("worker/0", b"no disk\n", log="runtime.log")
    found = [_failure("taskSucceeds", "copy")]
    _record(played, "worker/0", message="it failed", phase="taskSucceeds", callbackFailures=found)
    played.end("failed", "worker/0")
    assert said(played) == [  # and does not name it twice
        "the job failed: task worker/0, exit code 227",
        "  it failed",
        "  | no disk",
        "  its log: pai-runtime logs run worker/0 --runtime",
        "  the run took 45s",
    ]


def _used(peak: Any, seconds: float = 1.5, memory: int = 100, **more: Any) -> dict[str, Any]:
    asked = {"memoryMB": memory, "cpu": 1, "gpu": 2}
    return {"memoryPeakMB": peak, "cpuSeconds": seconds, "requested": asked, **more}


def _said_of_usage(folder: Path, used: dict[str, list[dict[str, Any]]]) -> list[str]:
    played = PlayedRun(folder / "run", None, **{role: len(tasks) for role, tasks in used.items()})
    played.all("succeeded", exitCode=0)
    for role, tasks in used.items():
        for index, usage in enumerate(tasks):
            _record(played, f"{role}/{index}", outcome="ok", usage=usage)
    played.end("succeeded")
    return said(played)[1:]


def test_it_says_what_each_task_has_used_beside_what_it_requests(tmp_path: Path) -> None:
    worker = [
        _used(7),
        _used(100, 83.1, gpuMemoryPeakMB=900, gpuUtilizationPercent=40),
        _used(5, 0, 0),
        _used(0),
    ]
    wrong = [{"memoryPeakMB": "1e9", "cpuSeconds": [], "requested": 1}]
    assert _said_of_usage(tmp_path, {"worker": worker, "server": wrong}) == [
        (
            "  peak of memory, and CPU time: worker/0 7 of 100 MB, 1.5s of 1 CPU; "
            "worker/1 100 of 100 MB, 1m23s of 1 CPU, 900 MB on 2 GPUs, GPU busy 40 %; "
            "worker/2 5 MB, 0.0s of 1 CPU; worker/3 1.5s of 1 CPU"
        )
    ]


def test_of_many_tasks_it_says_the_least_and_the_most_of_each_role(tmp_path: Path) -> None:
    workers = [_used(300 + index, index / 10, 1000, gpuMemoryPeakMB=7) for index in range(64)]
    assert _said_of_usage(tmp_path, {"worker": workers, "server": [_used(1)]}) == [
        (
            "  peak of memory, and CPU time: worker (64 tasks) 300 to 363 of 1000 MB, 0.0s to 6.3s of 1 CPU, "
            "7 MB on 2 GPUs; server (1 task) 1 of 100 MB, 1.5s of 1 CPU"
        )
    ]


@pytest.mark.parametrize(
    ("tasks", "named"),
    [
        (1, "worker/0 612 of 100 MB; a cluster would have ended it"),
        (
            12,
            (
                f"{', '.join(f'worker/{index} 612 of 100 MB' for index in range(10))} and 2 more; "
                "a cluster would have ended them"
            ),
        ),
    ],
)
def test_it_names_tasks_that_took_more_memory_than_they_request(
    tmp_path: Path, tasks: int, named: str
) -> None:
    _, over = _said_of_usage(tmp_path, {"worker": [_used(612)] * tasks, "server": [_used(100)]})
    assert over == f"  above memoryMB: {named}"


def test_of_a_run_on_a_cluster_it_does_not_say_what_a_cluster_would_have_done() -> None:
    over = [(RunTask("worker", 0, "succeeded", 0, 0, 1.0, 2.0), Usage(612, 1.0, memory=100))]
    assert list(usage_lines(over, on_cluster=True))[1:] == ["above memoryMB: worker/0 612 of 100 MB"]
