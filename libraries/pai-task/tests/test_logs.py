"""The logs: byte for byte, bounded on disk, and never the reason for a job to stop."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pai_task.launch import LaunchOptions, Rotation
from pai_task.plan import PlannedService, Service
from tests.support import until
from tests.task_harness import TaskRun, make_fifo, plan, run_task, shell

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("printf", "expected"),
    [
        (r"no newline", b"no newline"),
        (r"a\rb\rc\n", b"a\rb\rc\n"),
        (r"\n\n  indented\n", b"\n\n  indented\n"),
        (r"\000\001\377\200", b"\x00\x01\xff\x80"),
    ],
)
def test_the_users_output_is_kept_and_passed_on_byte_for_byte(
    tmp_path: Path, printf: str, expected: bytes
) -> None:
    run = run_task(plan(tmp_path, f"printf '{printf}'; printf '{printf}' >&2"))
    assert run.stdout == run.stdout_log == expected
    assert run.stderr == run.log("user-stderr/current") == expected
    begins_anew = b"" if expected.endswith(b"\n") else b"\n"
    assert run.log("user-all/current") == expected + begins_anew + expected


def test_megabytes_of_output_are_complete(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "head -c 20000000 /dev/zero | tr '\\0' x; echo end >&2"))
    assert run.stdout == run.stdout_log == b"x" * 20_000_000


def test_with_a_prefix_whole_lines_are_passed_on_behind_it(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "echo one; printf two"), LaunchOptions(prefix="worker/0 | "))
    assert run.stdout == b"worker/0 | one\nworker/0 | two\n"
    assert run.stdout_log == b"one\ntwo"


def test_output_goes_on_to_the_logs_when_nobody_reads_it(tmp_path: Path) -> None:
    read, write = os.pipe()
    run = TaskRun(plan(tmp_path, "head -c 1000000 /dev/zero"), stdout=write)
    os.close(write)
    os.close(read)
    assert run.end() == 0
    assert len(run.stdout_log) == 1_000_000


def test_lines_of_runtime_log_begin_with_their_date(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "true", [shell("taskStarts", 0, "printf 'a\\n\\nb'")]))
    date = rb"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ 1-3]\d \d\d:\d\d:\d\d UTC \d{4}"
    line = rb"\[" + date + rb"\] \[openpai-runtime\] .*"
    assert all(re.fullmatch(line, each) for each in run.log("runtime.log").splitlines())
    assert run.runtime_log[2:5] == ["a", "", "b"]


def test_runtime_log_says_which_use_or_service_printed_what_comes_next(tmp_path: Path) -> None:
    steps = [
        shell("taskStarts", 0, "echo one"),
        shell("taskStarts", 0, "echo two"),
        shell("taskStarts", 1, "true"),
        shell("taskStarts", 2, "printf three; exit 1"),
        shell("taskExits", 1, "echo four"),
    ]
    service = PlannedService(0, Service("board", "echo five; > up; sleep 1000", "[ -e up ]", required=True))
    run = run_task(
        replace(plan(tmp_path, "true", steps), services=(service,)),
        secrets={"x": "'a' (org.example.test) in"},
    )
    assert [line for line in run.runtime_log if "ended" not in line] == [
        "[INFO] Starting to exec precommands",
        "[INFO] output of ****** taskStarts:",
        "one",
        "two",
        "[INFO] output of service 'board' of 'a' (org.example.test):",
        "five",
        "[INFO] service 'board' is ready",
        "[INFO] output of 'c' (org.example.test) in taskStarts:",
        "three",
        "[INFO] output of 'b' (org.example.test) in taskExits:",
        "four",
    ]


def test_a_log_that_cannot_be_written_or_has_no_folder_does_not_stop_the_job(tmp_path: Path) -> None:
    (tmp_path / "logs" / "user-stdout").mkdir(parents=True)
    os.mkfifo(tmp_path / "logs" / "user-stdout" / "current")
    (tmp_path / "logs" / "user-stderr").write_text("a file where a folder should be")
    run = run_task(plan(tmp_path, "echo one; echo two; exit 5"))
    assert run.process.returncode == 5
    assert run.stdout == b"one\ntwo\n"
    assert run.stderr.count(b"cannot write " + bytes(tmp_path / "logs/user-stdout/current")) == 1
    assert b"the job continues" in run.stderr
    assert b"user-stderr/current" in run.stderr
    assert run.log("user-all/current") == b"one\ntwo\n"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_log_that_has_grown_to_its_size_goes_on_under_the_same_name(tmp_path: Path, count: int) -> None:
    command = "for i in $(seq 1000 1999); do echo $i; done"
    run = run_task(plan(tmp_path, command), LaunchOptions(rotation=Rotation(1024, count)))
    whole = "".join(f"{number}\n" for number in range(1000, 2000)).encode()
    assert run.stdout == whole
    folder = tmp_path / "logs" / "user-stdout"
    names = ["current", *(f"current.{number}" for number in range(1, count))]
    assert sorted(path.name for path in folder.iterdir()) == names
    parts = [(folder / name).read_bytes() for name in reversed(names)]
    assert all(len(part) <= 1024 for part in parts)
    assert whole.endswith(b"".join(parts))
    assert all(len(part) == 1024 for part in parts[:-1])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_log_whose_earlier_files_are_named_as_multilog_does_keeps_the_youngest(
    tmp_path: Path, count: int
) -> None:
    command = "for i in $(seq 1000 1999); do echo $i; done"
    run_task(plan(tmp_path, command), LaunchOptions(rotation=Rotation(1024, count, tai64n=True)))
    whole = "".join(f"{number}\n" for number in range(1000, 2000)).encode()
    for log in ("user-stdout", "user-all"):
        folder = tmp_path / "logs" / log
        earlier = sorted(path.name for path in folder.iterdir() if path.name.startswith("@"))
        assert len(earlier) == count - 1
        assert all(re.fullmatch(r"@40000000[0-9a-f]{16}\.s", name) for name in earlier)
        assert whole.endswith(b"".join((folder / name).read_bytes() for name in (*earlier, "current")))
        assert all((folder / name).stat().st_size == 1024 for name in earlier)
    assert not list((tmp_path / "logs").glob("@*"))
    assert not list((tmp_path / "logs").glob("*/current.*"))


def test_a_removed_log_folder_begins_anew_and_is_said(tmp_path: Path) -> None:
    make_fifo(tmp_path, "ready")
    make_fifo(tmp_path, "go")
    run = TaskRun(plan(tmp_path, "echo one; echo > ready; read line < go; echo two"))
    run.wait_for("ready")
    until(lambda: run.stdout_log == b"one\n")
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "work" / "go").write_text("\n")
    assert run.end() == 0
    assert run.stdout_log == b"two\n"
    assert b"was removed; starting a new file" in run.stderr


def test_a_line_without_end_is_kept_whole_and_does_not_fill_the_memory(tmp_path: Path) -> None:
    command = "head -c 300000000 /dev/zero\nawk '/VmHWM/ {print $2}' /proc/$PPID/status >&2"
    step = shell("taskStarts", 0, "head -c 100000000 /dev/zero")
    run = run_task(
        plan(tmp_path, command, [step]),
        LaunchOptions(prefix="worker/0 | "),
        stdout=os.open(os.devnull, os.O_WRONLY),
    )
    assert (tmp_path / "logs" / "user-stdout" / "current").stat().st_size + (
        tmp_path / "logs" / "user-stdout" / "current.1"
    ).stat().st_size == 300_000_000
    assert int(run.log("user-stderr/current")) < 64_000
