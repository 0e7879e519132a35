"""The exit record: small, complete and valid, whatever the logs hold."""

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pai_document.document import parse_document
from pai_document.schemas import package_schema
from pai_task.analysis import Analysis
from pai_task.exit_codes import RUNTIME_ERROR
from pai_task.exit_record import (
    MOST_BYTES,
    exit_record,
    read_termination_message,
    termination_message,
)
from pai_task.launch import LaunchOptions
from pai_task.outcome import CallbackFailure, Result
from tests.support import validator
from tests.task_harness import plan, run_task, use

_OF_RECORDS = validator("pai_task", "exit-record.schema.json")
_ANY = st.text(st.characters(), max_size=3000) | st.text('\0\x7f"\\\n\ufeff\U0001f600', max_size=6000)


SAVED = {"completed": True, "seconds": 1.5}
USAGE = {
    "memoryPeakMB": 10**7,
    "cpuSeconds": 123456789.12,
    "gpuMemoryPeakMB": 10**7,
    "gpuUtilizationPercent": 100,
    "requested": {"memoryMB": 10**7, "cpu": 1000, "gpu": 16},
}

_ANALYSES = st.builds(
    Analysis,
    code=st.just(226),
    phrase=_ANY,
    reason=_ANY,
    solution=st.lists(_ANY, max_size=6).map(tuple),
    trigger=_ANY,
    user_match=_ANY,
    platform_match=_ANY,
    gpu=st.dictionaries(
        st.from_regex(r"[A-Za-z_]\w{0,19}", fullmatch=True, alphabet=st.characters(max_codepoint=127)),
        st.booleans(),
        max_size=30,
    ),
)


@given(
    _ANY, _ANY, _ANY, st.integers(0, 20), st.text("ab_-", max_size=400), st.none() | _ANALYSES, st.booleans()
)
def test_a_record_is_whole_valid_and_within_bounds(
    message: str,
    user: str,
    platform: str,
    failures: int,
    name: str,
    analysis: Analysis | None,
    ran: bool,  # noqa: FBT001 - drawn
) -> None:
    code = 3 if ran else RUNTIME_ERROR
    user_code = 3 if ran else None
    result = Result(
        "failed", code, "command", user_code, message=message, failed=use(name), analysis=analysis
    )
    callbacks = tuple(CallbackFailure(use(name), "taskExits", code) for code in range(failures))
    text = exit_record(
        result, callbacks, (user, platform), usage=USAGE, preemption=SAVED, notes=[message] * 9, at=message
    )
    whole = termination_message(text)
    assert len(whole.encode()) <= 4096
    first, *lines, last = whole.splitlines()
    assert (first, last) == ("[PAI_RUNTIME_ERROR_START]", "[PAI_RUNTIME_ERROR_END]")
    record = yaml.safe_load("\n".join(lines))
    assert record == yaml.safe_load(text)
    assert (record["exitCode"], record["outcome"], record["originUserExitCode"]) == (
        code,
        "failed",
        user_code,
    )
    assert set(record["errorLogs"]) == {"user", "platform"}
    assert record.get("callbackFailureCount", 0) == failures >= len(record.get("callbackFailures", []))
    assert parse_document(text, "exit.yaml").data == record, "who sums up a job reads it too"
    _OF_RECORDS.validate(record)


def test_every_key_of_its_schema_is_one_that_a_record_has() -> None:
    analysis = Analysis(241, "P", "r", user_match="u", platform_match="p", gpu={"nvidiaXid": 79})
    result = Result("failed", RUNTIME_ERROR, "command", message="m", failed=use("a"), analysis=analysis)
    failures = (CallbackFailure(use("b"), "taskExits", 1),)
    record = yaml.safe_load(exit_record(result, failures, usage=USAGE, preemption=SAVED, notes=["n"], at="p"))
    guessed = yaml.safe_load(exit_record(Result("failed", 1, "command"), (), ("cannot read grid", "")))
    assert (
        record.keys() | {*guessed}
        == package_schema("pai_task", "exit-record.schema.json")["properties"].keys()
    )


def test_of_a_record_that_is_too_long_the_logs_go_first_and_what_a_rule_found_stays() -> None:
    analysis = Analysis(226, "P", "r", ("s",), trigger="t", user_match="u" * 1900, platform_match="p" * 1200)
    result = Result("failed", 1, "command", 1, message="m", analysis=analysis)
    record = yaml.safe_load(exit_record(result, (), ("x" * 4096, "y" * 4096)))
    assert record["matchedUserLogString"] == "u" * 1900
    assert record["matchedPlatformLogString"] == "p" * 1200
    assert 0 < len(record["errorLogs"]["user"]) + len(record["errorLogs"]["platform"]) < 900


@given(_ANY, st.integers(0, 4096))
def test_of_a_message_that_a_kubelet_has_cut_the_record_is_what_came_first(message: str, kept: int) -> None:
    result = Result("failed", 3, "command", 3, message=message)
    whole = termination_message(exit_record(result, (), ("x" * 2000, "y" * 2000))).encode()
    record = read_termination_message(whole.decode())
    found = read_termination_message(whole[:kept].decode(errors="replace"))
    assert list(found.items()) == list(record.items())[: len(found)]
    assert len(found) == len(record) or kept < len(whole)
    assert found or kept < len(whole) / 2, "the logs are last"


@pytest.mark.process
def test_the_record_is_written_where_the_platform_looks_for_it_between_markers(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.write_text("x" * 9000)
    there = log.stat().st_ino
    task = run_task(plan(tmp_path / "task", "echo out; exit 3"), LaunchOptions(termination_log=str(log)))
    record = (tmp_path / "task" / "exit.yaml").read_text()
    assert log.read_text() == f"[PAI_RUNTIME_ERROR_START]\n{record}[PAI_RUNTIME_ERROR_END]\n"
    assert log.stat().st_ino == there, "on Kubernetes it is a mounted file, which cannot be replaced"
    assert task.record["originUserExitCode"] == 3


@pytest.mark.process
def test_a_place_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    os.mkfifo(log)
    task = run_task(plan(tmp_path / "task", "exit 3"), LaunchOptions(termination_log=str(log)))
    assert task.process.returncode == 3
    assert b"cannot write " + bytes(log) in task.stderr


def test_a_nul_in_a_log_is_another_character_in_the_record_and_what_looks_like_one_is_not() -> None:
    text = exit_record(Result("failed", 1, "command"), (), ("a\0b \\u0000 \\\\u0000", ""))
    assert yaml.safe_load(text)["errorLogs"]["user"] == "a\ufffdb \\u0000 \\\\u0000"


@pytest.mark.process
def test_a_task_whose_plan_cannot_be_run_tells_the_platform_too(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    run_task(plan(tmp_path / "task"), LaunchOptions(termination_log=str(log)), plan_text="{")
    assert 'caughtException: "the plan in ' in log.read_text()


@given(st.text("abc\n", max_size=300), st.text("abc\n", max_size=300))
def test_short_tails_are_kept_whole(user: str, platform: str) -> None:
    record = yaml.safe_load(exit_record(Result("failed", 1, "command"), (), (user, platform)))
    assert record["errorLogs"] == {"user": user, "platform": platform}


def test_long_tails_share_the_room_and_keep_their_ends() -> None:
    tails = "u" * 5000 + "END", "p" * 5000 + "END"
    text = exit_record(Result("failed", 1, "command"), (), tails)
    logs = yaml.safe_load(text)["errorLogs"]
    assert logs["user"].endswith("END")
    assert logs["platform"].endswith("END")
    assert len(text) > MOST_BYTES - 20
    assert abs(len(logs["user"]) - len(logs["platform"])) < 20


@pytest.mark.process
def test_the_record_of_a_failed_task_ends_with_what_was_logged_last(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "seq 100000; echo 'RuntimeError: out of luck' >&2; exit 1"))
    assert run.record["message"] == "the command ended with exit code 1"
    assert run.record["errorLogs"]["user"].splitlines()[-1] == "RuntimeError: out of luck"
    assert "USER COMMAND END" in run.record["errorLogs"]["platform"]


@pytest.mark.parametrize(
    ("result", "log", "guess"),
    [
        (Result("failed", 1, "command"), "step 1\ncannot read grid\nstopped\n", "cannot read grid"),
        (Result("failed", 1, "command"), "step 1\n", None),
        (Result("cancelled", 143, "command"), "cannot read grid\n", None),
        (Result("failed", 1, "taskSucceeds"), "cannot read grid\n", None),
        (Result("failed", 1, "command"), "cannot read " + "x" * 5000, "cannot read "),
    ],
)
def test_of_a_failure_that_nothing_explains_the_record_has_a_guess(
    result: Result, log: str, guess: str | None
) -> None:
    found = yaml.safe_load(exit_record(result, (), (log, ""))).get("guess")
    assert found == guess or (guess and found.startswith(guess) and len(found) <= 300)


@pytest.mark.process
def test_the_record_of_a_good_task_holds_no_logs(tmp_path: Path) -> None:
    assert "errorLogs" not in run_task(plan(tmp_path, "seq 10")).record


@pytest.mark.process
def test_a_secret_is_not_in_the_record(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "echo it is sesame-open; exit 1"), secrets={"y": "sesame-open"})
    assert run.record["errorLogs"]["user"] == "it is ******\n"


@pytest.mark.process
def test_no_half_written_record_is_left(tmp_path: Path) -> None:
    run_task(plan(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "events.jsonl",
        "exit.yaml",
        "logs",
        "plan.json",
        "state.json",
        "variables.json",
        "work",
    ]
