"""``pai-runtime exec`` runs a program in a task that is running or held, with what the task has."""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pai_runtime.cli import asked_task
from pai_runtime.cli.asked_task import ask_task
from pai_runtime.engines.local.isolation_trial import try_out
from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.plugin import UserError
from pai_runtime.runs.state import Run
from pai_task.folder import Folder
from pai_task.session_socket import connect
from tests.played_run import PlayedRun
from tests.support import PROGRAM, callback, cli, job, write_job
from tests.typed_terminal import Terminal

pytestmark = pytest.mark.process

TOKEN = "the-value-of-a-token"


def _modes() -> Iterator[str]:
    """Of isolation, those that this machine has."""
    yield "none"
    if try_out(Path("/tmp") / f"pai-runtime-exec-{os.getpid()}").refusal is None:
        yield "required"


MODES = list(_modes())


@contextmanager
def running(folder: Path, mode: str, *commands: str, **fields: object) -> Generator[Path, None, None]:
    """A run of a job with one task, from when its command has said ``up`` until it is stopped."""
    prepared = {"name": "prepared", "callbacks": [callback("taskStarts", "export FROM_STEP='a b'")]}
    document = job(
        prerequisites=[prepared],
        worker={"prerequisites": ["prepared"], "commands": [*commands, "echo up", "exec sleep 1000"]},
        extras={"environment": ["API_TOKEN"], **fields},
    )
    argv: list[str | Path] = [PROGRAM, "run", write_job(folder, document), "--plain", "--out", folder / "run"]
    with subprocess.Popen(
        [*argv, "--isolation", mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "API_TOKEN": TOKEN},
    ) as engine:
        assert engine.stdout
        assert engine.stdout.readline() == b"up\n"
        try:
            yield folder / "run"
        finally:
            engine.send_signal(signal.SIGINT)
            engine.communicate()


def entered(run: Path, *argv: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A program that has run in the task, without a terminal."""
    return subprocess.run(
        [PROGRAM, "exec", run, "worker/0", *argv], input=data, capture_output=True, timeout=60, check=False
    )


@pytest.fixture(scope="module", params=MODES)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Path, None, None]:
    folder = tmp_path_factory.mktemp("run")
    with running(folder, request.param, f"echo data > {shlex.quote(str(folder))}/of-the-task") as started:
        yield started


def test_a_program_sees_the_files_variables_and_working_directory_of_the_task(run: Path) -> None:
    script = (
        f'cat {shlex.quote(str(run.parent))}/of-the-task; pwd; echo "$FROM_STEP $API_TOKEN $PAI_TASK_INDEX"'
    )
    ended = entered(run, "--", "sh", "-c", script)
    work = run.resolve() / "worker/0/work"
    assert ended.stdout.decode().splitlines() == ["data", str(work), f"a b {TOKEN} 0"]
    assert ended.stderr == b""


def test_its_streams_are_the_callers_byte_for_byte_and_so_is_its_exit_status(run: Path) -> None:
    data = bytes(range(256)) * 1024
    ended = entered(run, "sh", "-c", "cat; echo error >&2; exit 7", data=data)
    assert (ended.stdout == data, ended.stderr, ended.returncode) == (True, b"error\n", 7)
    assert entered(run, "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert entered(run, "--", "sh", "-c", "ls /proc/$$/fd").stdout.split() == [b"0", b"1", b"2"]


def test_without_a_command_it_is_a_shell(run: Path) -> None:
    ended = entered(run, data=b'echo "$FROM_STEP"; exit 3\n')
    assert (ended.stdout, ended.returncode) == (b"a b\n", 3)


def test_what_it_writes_is_in_no_log_of_the_task_and_the_value_of_no_variable_is_on_disk(run: Path) -> None:
    assert entered(run, "--", "sh", "-c", "echo of-a-person; env").returncode == 0
    found = subprocess.run(["grep", "-rlE", f"of-a-person|{TOKEN}", run], capture_output=True, check=False)
    assert found.stdout == b""


def test_a_program_that_cannot_be_started_has_the_status_that_a_shell_gives_it(run: Path) -> None:
    for argv, status in {
        ("no-such-program",): 127,
        ("/no/such/program",): 127,
        ("/etc/passwd",): 126,
        ("/tmp",): 126,
        ("echo", "x" * 100_000, "x" * 100_000): 2,
    }.items():
        ended = entered(run, "--", *argv)
        assert (ended.returncode, ended.stdout) == (status, b""), argv
        assert ended.stderr.startswith(b"pai-runtime: worker/0: "), argv


def test_a_program_is_asked_for_json_and_what_is_none_is_told(run: Path) -> None:
    reader = LocalRunReader(run)
    found = reader.run()
    assert isinstance(found, Run)
    task = found.tasks[0]
    script = 'cat; exec "$PAI_RUNTIME_PYTHON" -I -c "import pai_runtime, sys; print(sys.argv[1:])"'
    assert ask_task(reader, task, ["sh", "-c", script]) == []
    for refused, why in {
        "echo '[1'": "expected JSON",
        "echo []; echo because >&2; exit 3": "because",
        "exec head -c 9000000 /dev/zero": "more than 8 MiB",
        "exec no-such-program": "no-such-program",
    }.items():
        with pytest.raises(UserError, match=why):
            ask_task(reader, task, ["sh", "-c", refused])


def test_who_does_not_answer_is_waited_for_for_a_while_and_leaves_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = LocalRunReader(run)
    found = reader.run()
    assert isinstance(found, Run)
    # As srun does: a process of what enters has its streams too, and no hang-up ends it.
    child = "trap '' HUP; echo because >&2; exec 9> alive; sleep 600 & wait"
    monkeypatch.chdir(run)
    os.mkfifo("alive")
    alive = os.open("alive", os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(asked_task, "python_argv", lambda *_: ["sh", "-c", child])
    monkeypatch.setattr(asked_task, "_WITHIN", 0.5)
    with pytest.raises(UserError, match="no answer within"):
        ask_task(reader, found.tasks[0], ["true"])
    os.set_blocking(alive, True)
    assert os.read(alive, 1) == b""  # nobody has it open any more
    os.close(alive)


def test_signals_are_passed_on(run: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        script = f"trap 'exit {number}' {number.name[3:]}; echo ready; while :; do sleep 0.01; done"
        with subprocess.Popen(
            [PROGRAM, "exec", run, "worker/0", "--", "sh", "-c", script], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(number)
            assert process.wait(60) == number


_SIGNALLED_EARLY = """
import os, signal, sys
from pai_runtime.cli import main
from pai_runtime.engines.local import entering
ask = entering._ask
def ask_and_be_told_to_end(*args, **options):
    ask(*args, **options)
    os.kill(os.getpid(), signal.SIGTERM)
entering._ask = ask_and_be_told_to_end
sys.exit(main())
"""


def test_a_signal_that_comes_as_soon_as_the_program_has_begun_is_passed_on_too(run: Path) -> None:
    argv: list[str | Path] = ["exec", run, "worker/0", "--", "sleep", "1000"]
    ended = subprocess.run([sys.executable, "-c", _SIGNALLED_EARLY, *argv], check=False, timeout=60)
    assert ended.returncode == 128 + signal.SIGTERM


def test_a_program_whose_caller_is_killed_is_hung_up(run: Path) -> None:
    script = "trap 'echo > hung-up; exit' HUP; echo ready; while :; do sleep 0.01; done"
    os.mkfifo(run / "worker/0/work/hung-up")
    with subprocess.Popen(
        [PROGRAM, "exec", run, "worker/0", "--", "sh", "-c", script], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    assert (run / "worker/0/work/hung-up").read_text() == "\n"


def test_on_a_terminal_it_has_one_of_its_own_with_keys_jobs_and_a_size(run: Path) -> None:
    terminal = Terminal(PROGRAM, "exec", run, "worker/0", "--", "bash", "--norc", "--noprofile", "-i")
    terminal.resize(30, 111)
    terminal.type("echo in-$((1 + 1)); tty; test -t 2 && echo ok-$?\n")
    terminal.wait_for(r"in-2\r\n/dev/pts/\d+\r\nok-0\r\n")
    terminal.type("until test \"$(stty size)\" = '30 111'; do sleep 0.01; done; echo sized-$?\n")
    terminal.wait_for("sized-0")
    says = "trap 'echo continued-$((1 + 1))' CONT; echo begun-$((1 + 1))"
    terminal.type(f"({says}; sleep 1000 & while :; do wait; done)\n")
    terminal.wait_for("begun-2")
    terminal.type("\x1a")
    terminal.wait_for("Stopped")
    terminal.type("fg\n")
    terminal.wait_for("continued-2")
    terminal.type("\x03")
    terminal.type("echo interrupted-$?\n")
    terminal.wait_for("interrupted-130")
    terminal.type("sleep 1000 & exit 5\n")
    assert terminal.end() == 5


def test_the_callers_terminal_is_as_it_was_afterwards(run: Path) -> None:
    script = 'stty -g; "$@"; stty -g'
    shell = Terminal("sh", "-c", script, "sh", PROGRAM, "exec", run, "worker/0", "--", "stty", "raw")
    assert shell.end() == 0
    before, after = shell.seen.split()
    assert before == after


@pytest.mark.parametrize("piped", [0, 1])
def test_with_only_one_stream_a_terminal_it_has_none_of_the_callers(run: Path, piped: int) -> None:
    ours, its = os.openpty()
    script = (
        "read line; echo got-$line; for fd in 0 1 2; do test -t $fd && echo terminal-$fd; done >&2; exit 5"
    )
    stdin, stdout = (its, subprocess.PIPE) if piped else (subprocess.PIPE, its)
    argv: list[str | Path] = [PROGRAM, "exec", run, "worker/0", "--", "sh", "-c", script]
    with subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=its) as process:
        os.close(its)
        if process.stdin:
            process.stdin.write(b"keys\n")
            process.stdin.flush()
        else:
            os.write(ours, b"keys\n")
        shown = b""
        with contextlib.suppress(OSError):  # nobody has the terminal open any more
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
        said = shown + (process.stdout.read() if process.stdout else b"")
        assert process.wait(60) == 5
    assert b"got-keys" in said
    assert b"terminal-" not in said


def test_a_task_that_is_held_can_be_entered(tmp_path: Path) -> None:
    commands = ["echo kept > file; exit 9"]
    path = write_job(tmp_path, job(worker={"commands": commands}, extras={"holdOnFailure": "1h"}))
    argv: list[str | Path] = [PROGRAM, "run", path, "--plain", "--out", tmp_path / "run"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as engine:
        assert engine.stderr
        assert any("; to release it: touch " in line for line in engine.stderr)
        script = 'cat file; echo "$PAI_TASK_INDEX"; touch ../release; exec sleep 1000'
        ended = entered(tmp_path / "run", "--", "sh", "-c", script)
        assert (ended.stdout, ended.returncode) == (b"kept\n0\n", 137)
        engine.communicate()
    assert engine.returncode == 9


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_was_run_in_a_task_outlives_it(tmp_path: Path, mode: str) -> None:
    with running(tmp_path, mode) as started:
        script = "trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000 & echo ready; wait"
        process = subprocess.Popen(
            [PROGRAM, "exec", started, "worker/0", "--", "sh", "-c", script], stdout=subprocess.PIPE
        )
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
    assert process.stdout.read() == b""  # nobody has it open any more
    assert process.wait(60) == 137
    process.stdout.close()
    assert not (started / "worker/0/exec.sock").exists()
    ended = entered(started, "true")
    assert (ended.returncode, b"a task that is running or held" in ended.stderr) == (2, True)


def test_what_does_not_run_cannot_be_entered(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=2)
    played.set("worker/0", "running")
    played.task_folder("worker/0")
    for task in ("worker/0", "worker/1", "worker/2"):
        assert cli("exec", tmp_path / "run", task, "true").returncode == 2
    assert cli("exec", tmp_path / "nowhere", "worker/0").returncode == 2
    assert cli("exec", tmp_path / "run", "worker").returncode == 2


@contextmanager
def listening(path: Path) -> Generator[socket.socket, None, None]:
    """A socket as of a supervisor; its own name may be longer than that of a socket can be."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server, Folder.at(path.parent) as folder:
        server.bind(f"{folder.descriptor}/{path.name}")
        yield server


@pytest.fixture
def played(tmp_path: Path) -> PlayedRun:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.set("worker/0", "running")
    return played


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"no JSON", 2),
        (b"[" * 100_000, 2),
        (b"[]", 2),
        (b"{}", 2),
        (b'{"exitCode": "x"}', 2),
        (b'{"exitCode": [], "message": "m"}', 2),
        (b'{"exitCode": 3, "message": "\\u001b[31m\\nforged"}', 3),
        (b'{"exitCode": 515}', 3),
    ],
)
def test_whatever_is_answered_by_what_a_task_has_put_there_is_no_traceback(
    played: PlayedRun, answer: bytes, status: int
) -> None:
    with listening(played.task_folder("worker/0") / "exec.sock") as server:
        server.listen()
        with subprocess.Popen(
            [PROGRAM, "exec", played.folder, "worker/0", "true"], stderr=subprocess.PIPE
        ) as process:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.send(answer)
            assert process.stderr
            lines = process.stderr.read().splitlines()
        assert process.returncode == status
        assert all(line.startswith(b"pai-runtime: worker/0: ") for line in lines)
        assert b"\x1b" not in b"".join(lines)


WORDS = {"argv": ["cat"], "terminal": False, "variables": {}}


@pytest.mark.parametrize(
    "messages",
    [
        [b"no JSON"],
        [b"[" * 100_000],
        [json.dumps({**WORDS, "argv": ["a\0b"]}).encode()],
        [json.dumps({**WORDS, "argv": ["\udcff"]}).encode()],
        [json.dumps({**WORDS, "variables": {"A": 1, "B=": "\0"}}).encode()],
        [json.dumps({**WORDS, "variables": {"PATH": 7}}).encode()],
        *[
            [json.dumps(WORDS).encode(), json.dumps({"signal": signal}).encode()]
            for signal in (2**70, 2**31, -1, "1", None, True)
        ],
    ],
    ids=lambda messages: repr(messages[-1])[:60],
)
def test_no_message_ends_a_supervisor(run: Path, messages: list[bytes]) -> None:
    stdin, held_open = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY)
    with Folder.at(run) as opened, opened.folder("worker/0") as own, connect(own) as connection:
        socket.send_fds(connection, messages[:1], [stdin, null, null])
        with contextlib.suppress(OSError):
            for message in messages[1:]:
                connection.send(message)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1000)
    for fd in (stdin, held_open, null):
        os.close(fd)
    assert entered(run, "echo", "still here").stdout == b"still here\n"


def test_one_who_accepts_nobody_holds_nobody_up(played: PlayedRun) -> None:
    with listening(played.task_folder("worker/0") / "exec.sock") as server, Folder.at(played.folder) as run:
        server.listen(0)
        with run.folder("worker/0") as own, connect(own):
            assert entered(played.folder, "true").returncode == 2
            played.end("succeeded")
            assert cli("rm", played.folder).returncode == 2


def test_a_link_in_place_of_the_socket_leads_nowhere(played: PlayedRun, tmp_path: Path) -> None:
    with listening(tmp_path / "other") as server:
        server.listen()
        (played.task_folder("worker/0") / "exec.sock").symlink_to(tmp_path / "other")
        assert entered(played.folder, "true").returncode == 2
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
