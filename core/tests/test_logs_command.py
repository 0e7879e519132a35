"""``pai-runtime logs``: what the tasks of a run have written, afterwards or while they write it."""

import errno
import os
import shlex
import signal
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pai_runtime.cli import FEWEST_FILES
from pai_task.launch import Rotation
from tests.forked_command import forked_command
from tests.played_run import PlayedRun
from tests.support import PROGRAM, cli

pytestmark = pytest.mark.process


def logs(*args: str | Path) -> bytes:
    """What it prints, where it succeeds."""
    done = forked_command(["logs", *map(str, args)], None, os.environ)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def two_workers(folder: Path) -> PlayedRun:
    played = PlayedRun(folder, Rotation(size=20, count=3), worker=2)
    played.all("running")
    return played


def test_one_task_gives_its_bytes_as_they_are_also_those_in_rotated_files(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    data = b"a\r\xff\x00\x1b[31m\n" * 4 + b"no newline"
    played.output("worker/1", data)
    assert (tmp_path / "worker/1/logs/user-all/current.2").exists()
    assert logs(tmp_path, "worker/1") == data


def test_all_tasks_give_lines_behind_their_names(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    played.output("worker/0", b"one\ntwo")
    played.output("worker/1", b"three\n")
    assert logs(tmp_path) == b"worker/0 | one\nworker/0 | two\nworker/1 | three\n"


def test_logs_that_cannot_all_be_open_are_not_shown_as_if_there_were_none(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=40)
    for index in range(40):
        played.output(f"worker/{index}", b"line\n")
    argv: list[str | Path] = [
        "sh",
        "-c",
        f'ulimit -n {FEWEST_FILES}; exec "$@"',
        "sh",
        PROGRAM,
        "logs",
        tmp_path,
    ]
    ended = subprocess.run(argv, capture_output=True, check=False, timeout=60)
    assert (ended.returncode, os.strerror(errno.EMFILE) in ended.stderr.decode()) == (2, True)


def test_a_job_of_one_task_has_no_prefix(tmp_path: Path) -> None:
    PlayedRun(tmp_path, worker=1).output("worker/0", b"one\ntwo")
    assert logs(tmp_path) == b"one\ntwo"


_NINE, _TEN = 9 * 3600.0, 10 * 3600.0  # of 1970-01-01, UTC


def timed(folder: Path) -> PlayedRun:
    """Two tasks that have written in turn."""
    played = PlayedRun(folder, worker=2)
    played.output_at(_NINE, "worker/0", b"load\n")
    played.output_at(_NINE + 1, "worker/1", b"load\nstep 1\n")
    played.output_at(_TEN, "worker/0", b"step 1\n")
    played.output_at(_TEN + 0.5, "worker/1", b"step 2\n")
    played.output_at(_TEN + 2, "worker/0", b"step 2\nend")
    played.end("succeeded")
    return played


@pytest.mark.parametrize("more", [(), ("-f",)])
def test_lines_of_several_tasks_are_in_the_order_of_their_times(tmp_path: Path, more: tuple[str]) -> None:
    timed(tmp_path)
    assert logs(tmp_path, *more).decode().splitlines() == [
        "worker/0 | load",
        "worker/1 | load",
        "worker/1 | step 1",
        "worker/0 | step 1",
        "worker/1 | step 2",
        "worker/0 | step 2",
        "worker/0 | end",
    ]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["worker/1", "--tail", "2"], b"step 1\nstep 2\n"),
        (["worker/0", "--tail", "2"], b"step 2\nend"),
        (["worker/0", "--tail", "0"], b""),
        (["worker/0", "--tail", "9"], b"load\nstep 1\nstep 2\nend"),
        (["worker/0", "--tail", "1", "-f"], b"end"),
        (["--tail", "1"], b"worker/1 | step 2\nworker/0 | end\n"),
        (["worker/0", "--since", "1970-01-01T10:00:00Z"], b"step 1\nstep 2\nend"),
        (["worker/0", "--since", "1970-01-01T12:00:01.500+02:00"], b"step 2\nend"),
        (["worker/0", "--since", "10m"], b""),
        (["--since", "1970-01-01T10:00:00Z", "--tail", "1"], b"worker/1 | step 2\nworker/0 | end\n"),
        (
            ["worker/0", "--timestamps", "--tail", "2"],
            b"1970-01-01T10:00:02.000Z step 2\n1970-01-01T10:00:02.000Z end\n",
        ),
        (
            ["--timestamps", "--tail=1"],
            b"worker/1 | 1970-01-01T10:00:00.500Z step 2\nworker/0 | 1970-01-01T10:00:02.000Z end\n",
        ),
    ],
)
def test_a_part_of_the_logs_can_be_had_and_the_times_of_lines(
    tmp_path: Path, args: list[str], expected: bytes
) -> None:
    timed(tmp_path)
    assert logs(tmp_path, *args) == expected


def test_times_go_on_over_rotations(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, Rotation(size=64, count=3), worker=1)
    for number in range(20):
        played.output_at(_NINE + number, "worker/0", b"line %02d\n" % number)
    lines = logs(tmp_path, "--timestamps").splitlines()
    assert 8 < len(lines) < 20
    assert lines == [
        b"1970-01-01T09:00:%02d.000Z line %02d" % (number, number) for number in range(20 - len(lines), 20)
    ]


def test_without_times_it_shows_all_and_says_so(tmp_path: Path) -> None:
    PlayedRun(tmp_path, worker=1).output("worker/0", b"one\ntwo\n")
    done = cli("logs", tmp_path, "--since", "10m", "--timestamps")
    assert (done.returncode, done.stdout) == (0, "- one\n- two\n")
    assert done.stderr.count("worker/0") == 1


@pytest.mark.parametrize("kind", ["fifo", "folder", "noise", "link"])
def test_whatever_is_in_the_place_of_the_times_the_log_is_shown(tmp_path: Path, kind: str) -> None:
    played = PlayedRun(tmp_path, worker=1)
    played.output("worker/0", b"one\ntwo\n")
    times = tmp_path / "worker/0/logs/user-all/times"
    if kind == "fifo":
        os.mkfifo(times)
    elif kind == "folder":
        times.mkdir()
    elif kind == "link":
        times.symlink_to("/dev/zero")
    else:
        times.write_bytes(b"\xff" * 1000 + bytes(5))
    done = cli("logs", tmp_path, "--timestamps")
    assert (done.returncode, done.stdout) == (0, "- one\n- two\n")


def test_the_runtimes_own_log_has_times_too(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=2)
    mark = b"[Thu Jan  1 %02d:00:00 UTC 1970] [openpai-runtime] "
    played.output("worker/0", mark % 9 + b"a\n" + mark % 11 + b"c\n", log="runtime.log")
    played.output("worker/1", mark % 10 + b"b\n", log="runtime.log")
    assert logs(tmp_path, "--runtime") == (
        b"worker/0 | " + mark % 9 + b"a\nworker/1 | " + mark % 10 + b"b\nworker/0 | " + mark % 11 + b"c\n"
    )
    since = ["--since", "1970-01-01T10:30:00Z"]
    assert logs(tmp_path, "worker/0", "--runtime", *since) == mark % 11 + b"c\n"


def test_earlier_attempts_can_be_had(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    played.output("worker/1", b"first\n")
    played.new_attempt("worker/1", "exitCode: 1")
    played.output("worker/1", b"second\n")
    played.output("worker/0", b"only\n")
    played.set("worker/1", "succeeded", exitCode=0, retries=1)
    assert logs(tmp_path, "worker/1", "--attempt", "0") == b"first\n"
    assert logs(tmp_path, "worker/1", "--attempt", "0", "-f") == b"first\n"
    assert logs(tmp_path, "worker/1", "--attempt", "1") == logs(tmp_path, "worker/1") == b"second\n"
    assert logs(tmp_path, "--attempt", "1") == b"worker/1 | second\n"
    done = cli("logs", tmp_path, "worker/1", "--attempt", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "attempt 2" in done.stderr


@pytest.mark.parametrize(
    "option",
    [["--tail", "-1"], ["--tail", "x"], ["--since", "soon"], ["--since", "2026-13-01"], ["--attempt", "x"]],
)
def test_an_option_that_is_not_understood_is_said(tmp_path: Path, option: list[str]) -> None:
    two_workers(tmp_path)
    done = cli("logs", tmp_path, *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert option[0] in done.stderr
    assert "Traceback" not in done.stderr


def test_the_runtimes_own_log_can_be_had_instead(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    played.output("worker/0", b"[date] [openpai-runtime] x\n", log="runtime.log")
    played.output("worker/0", b"output\n")
    assert logs(tmp_path, "worker/0", "--runtime") == b"[date] [openpai-runtime] x\n"


def test_a_task_that_has_written_nothing_yet_gives_nothing(tmp_path: Path) -> None:
    two_workers(tmp_path)
    assert logs(tmp_path) == logs(tmp_path, "worker/0") == b""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "there is no run 'nowhere'"),
        (["empty"], "cannot read the run empty: it has no run.json; pai-runtime ps lists the runs"),
        (["broken"], "cannot read the run broken: its run.json is invalid"),
        (["run", "worker/7"], "no task 'worker/7' in run; known: worker/0 to worker/1, server/0"),
        (["run", "../0"], "no task '../0' in run; known:"),
        (["run", "server/0"], "run/server/0/logs/user-all/current cannot be read: not a regular file"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(tmp_path: Path, args: list[str], message: str) -> None:
    PlayedRun(tmp_path / "run", worker=2, server=1)
    (tmp_path / "run" / "server/0/logs/user-all/current").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").touch()
    done = cli("logs", *args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pai-runtime: {message}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("task", ["worker/", "../run", "worker/0/../0x", ""])
def test_a_task_is_given_by_role_and_index(tmp_path: Path, task: str) -> None:
    PlayedRun(tmp_path / "run", worker=1)
    done = cli("logs", "run", task, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no task '{task}'" in done.stderr


@pytest.mark.parametrize(
    ("words", "tasks"),
    [
        ([], "abc"),
        (["latest"], "abc"),
        (["latest", "worker"], "ab"),
        (["worker"], "ab"),
        (["worker/1"], "b"),
        (["server"], "c"),
        (["demo-1", "worker"], ""),
        ([".pai-runs/demo-2", "server"], "c"),
    ],
)
def test_a_role_stands_for_its_tasks_and_a_run_that_is_left_out_for_the_latest(
    tmp_path: Path, words: list[str], tasks: str
) -> None:
    PlayedRun(tmp_path / ".pai-runs/demo-1", worker=2)
    latest = PlayedRun(tmp_path / ".pai-runs/demo-2", worker=2, server=1)
    for task, text in (("worker/0", b"a"), ("worker/1", b"b"), ("server/0", b"c")):
        latest.output(task, text + b"\n")
    done = cli("logs", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(line[-1] for line in done.stdout.splitlines()) == list(tasks)


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    PlayedRun(tmp_path, worker=1).output("worker/0", b"line\n" * 200_000)
    command = f"{shlex.join([str(PROGRAM), 'logs', str(tmp_path)])} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("line\n0\n", "")


@contextmanager
def following(*args: str | Path) -> Generator[subprocess.Popen[bytes], None, None]:
    process = subprocess.Popen([PROGRAM, "logs", "-f", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_bytes(process: subprocess.Popen[bytes], count: int) -> bytes:
    assert process.stdout is not None
    return process.stdout.read(count)


def test_following_shows_what_comes_until_the_task_has_ended(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    played.output("worker/0", b"before\n")
    with played.engine(), following(tmp_path, "worker/0") as process:
        assert next_bytes(process, 7) == b"before\n"
        for number in range(10):
            line = b"line number %d\n" % number
            played.output("worker/0", line)
            assert next_bytes(process, len(line)) == line
        played.output("worker/0", b"last")
        played.set("worker/0", "succeeded", exitCode=0)
        assert process.communicate(timeout=60) == (b"last", b"")
        assert process.returncode == 0


def test_following_all_tasks_goes_on_to_the_next_attempt_and_to_the_end_of_the_run(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    with played.engine(), following(tmp_path) as process:
        played.output("worker/1", b"first\n")
        assert next_bytes(process, 17) == b"worker/1 | first\n"
        played.new_attempt("worker/1", "exitCode: 1")
        played.output("worker/1", b"second\n")
        assert next_bytes(process, 18) == b"worker/1 | second\n"
        played.output("worker/0", b"other")
        played.end("cancelled")
        assert process.communicate(timeout=60) == (b"worker/0 | other\n", b"")


def test_following_ends_when_the_engine_was_killed(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    engine = ExitStack()
    engine.enter_context(played.engine())
    with following(tmp_path) as process:
        played.output("worker/0", b"begun\n")
        assert next_bytes(process, 17) == b"worker/0 | begun\n"
        engine.close()
        assert process.communicate(timeout=60) == (b"", b"")
        assert process.returncode == 0


def test_ctrl_c_ends_the_following(tmp_path: Path) -> None:
    played = two_workers(tmp_path)
    played.output("worker/0", b"x")
    with played.engine(), following(tmp_path, "worker/0") as process:
        assert next_bytes(process, 1) == b"x"
        os.kill(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60) == (b"", b"")
        assert process.returncode == 130
