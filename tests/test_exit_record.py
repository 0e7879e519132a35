"""The exit record: small, complete and valid, whatever the logs hold."""

from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from pai_runtime.task.exit_record import MOST_BYTES, exit_record
from pai_runtime.task.lifecycle import CallbackFailure, Result
from tests.task_harness import plan, run_task, use

_ANY = st.text(st.characters(), max_size=3000) | st.text('\0\x7f"\\\n\ufeff\U0001f600', max_size=6000)


@given(_ANY, _ANY, _ANY, st.integers(0, 20), st.text("ab_-", max_size=400))
def test_a_record_is_whole_valid_and_within_bounds(
    message: str, user: str, platform: str, failures: int, name: str
) -> None:
    result = Result("failed", 3, "command", 3, message=message, failed=use(name))
    callbacks = tuple(CallbackFailure(use(name), "taskExits", code) for code in range(failures))
    text = exit_record(result, callbacks, (user, platform))
    assert len(text.encode()) <= MOST_BYTES
    record = yaml.safe_load(text)
    assert (record["exitCode"], record["outcome"], record["userExitCode"]) == (3, "failed", 3)
    assert set(record["errorLogs"]) == {"user", "platform"}


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


def test_the_record_of_a_failed_task_ends_with_what_was_logged_last(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "seq 100000; echo 'RuntimeError: out of luck' >&2; exit 1"))
    assert run.record["message"] == "the command ended with exit code 1"
    assert run.record["errorLogs"]["user"].splitlines()[-1] == "RuntimeError: out of luck"
    assert "USER COMMAND END" in run.record["errorLogs"]["platform"]


def test_the_record_of_a_good_task_holds_no_logs(tmp_path: Path) -> None:
    assert "errorLogs" not in run_task(plan(tmp_path, "seq 10")).record


def test_a_secret_is_not_in_the_record(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "echo it is sesame-open; exit 1"), secrets={"y": "sesame-open"})
    assert run.record["errorLogs"]["user"] == "it is ******\n"


def test_no_half_written_record_is_left(tmp_path: Path) -> None:
    run_task(plan(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "exit.yaml",
        "logs",
        "plan.json",
        "state.json",
        "variables.json",
        "work",
    ]
