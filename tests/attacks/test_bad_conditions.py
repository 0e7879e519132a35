"""Whatever is wrong around the program, it says so in a line and with its exit status."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pai_runtime.cli import FEWEST_FILES, LEAST_MEMORY
from tests.played_run import PlayedRun
from tests.support import PROGRAM, cli, in_turn, job, write_job

pytestmark = pytest.mark.process

SHOWING = ["plan", "validate", "ps", "logs", "variables", "plugins list", "--help"]
# Each command has both as its output, in one of its forms each; where it has but one form, one of them.
TO_FULL = [
    "plan",
    "validate --json",
    "ps",
    "logs -f",
    "plugins list --json",
    "--help",
    "variables",
    "exit-codes 137",
]
TO_NOBODY = ["plan --json", "validate", "ps --json", "logs", "plugins list", "run --help"]
TO_NOBODY += ["plugins show cmd", "plugins check cmd"]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder with a job, and with a run that has ended."""
    write_job(tmp_path, job(worker={"commands": ["echo größer 日本"]}))
    played = PlayedRun(tmp_path / "run", worker=1)
    played.output("worker/0", b"done\n")
    (tmp_path / "run/worker/0/variables.json").write_text('{"A": {"value": "é", "source": "image"}}')
    played.all("succeeded", exitCode=0)
    played.end("succeeded")
    return tmp_path


def line(command: str, there: Path) -> list[str | Path]:
    """The command line of one of the commands."""
    name, *options = command.split()
    arguments: dict[str, list[str | Path]] = {
        "plan": [there / "job.yaml"],
        "validate": [there / "job.yaml"],
        "run": [there / "job.yaml", "--out", there / "new"],
        "ps": [there / "run"],
        "logs": [there / "run"],
        "variables": [there / "run", "worker/0"],
    }
    return [PROGRAM, name, *options, *arguments.get(name, [])]


@pytest.mark.parametrize("command", TO_FULL)
def test_output_that_cannot_be_written_is_status_2(there: Path, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            line(command, there),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", TO_NOBODY)
def test_output_that_nobody_reads_is_no_error(there: Path, command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(line(command, there), stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("command", "status"), [("validate", 1), ("plan", 1), ("run", 2), ("logs", 2), ("none", 2), ("", 2)]
)
@pytest.mark.parametrize("stderr", ["full", "left"])
def test_messages_that_cannot_be_told_do_not_change_the_status(
    tmp_path: Path, command: str, status: int, stderr: str
) -> None:
    path = write_job(tmp_path, job(name="no name"))
    read, write = os.pipe()
    os.close(read)
    with Path("/dev/full").open("wb") as full:
        target = full.fileno() if stderr == "full" else write
        ended = subprocess.run([PROGRAM, command, path], stdout=subprocess.PIPE, stderr=target, check=False)
    os.close(write)
    assert (ended.returncode, ended.stdout) == (status, b"")


@pytest.mark.parametrize("command", [*SHOWING, "run"])
def test_a_folder_that_has_been_removed_is_told_in_a_line(there: Path, command: str) -> None:
    gone = there / "gone"
    gone.mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    # By Python: where its path has a space, the script begins as one of a shell, which has its own message.
    argv = ["sh", "-c", script, gone, sys.executable, *line(command, there)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert not (there / "new").exists()


FILES = [f"-n {most}" for most in (10, 15, 20, FEWEST_FILES - 1)]
TOO_LITTLE = [*FILES, f"-v {LEAST_MEMORY - 1}", "-v 30000"]


@pytest.mark.parametrize(("command", "limit"), in_turn([*SHOWING, "run"], TOO_LITTLE))
def test_too_little_of_files_or_memory_is_told_in_a_line(there: Path, command: str, limit: str) -> None:
    ended = subprocess.run(
        ["bash", "-c", f'ulimit {limit}; exec "$@"', "-", *line(command, there)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert not (there / "new").exists()


@pytest.mark.parametrize("command", [*SHOWING, "run"])
def test_the_least_of_it_is_enough(there: Path, command: str) -> None:
    ended = subprocess.run(
        ["bash", "-c", f'ulimit -n {FEWEST_FILES} -v {LEAST_MEMORY}; exec "$@"', "-", *line(command, there)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


HOLDING = """
import os, resource, sys
room, *command = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
while os.dup(0) < 127:
    pass
os.closerange(128 - int(room), 128)
for fd in range(3, 128 - int(room)):
    os.set_inheritable(fd, True)
os.execv(command[0], command)
"""
"""Leaves a command `room` for files of its own below the limit, as a caller does that leaks its own."""


@pytest.mark.parametrize(("command", "room"), in_turn(SHOWING, [3, 4, 5, 6, 8, 10]))
def test_files_that_somebody_else_holds_open_are_no_reason_for_a_traceback(
    there: Path, command: str, room: int
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HOLDING, str(room), *map(str, line(command, there))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode in (0, 2) or ended.stderr


@pytest.mark.parametrize(
    ("command", "closed"), in_turn([*SHOWING, "run"], ["0", "1", "2", "02", "12", "012"])
)
def test_closed_standard_streams_change_nothing(there: Path, command: str, closed: str) -> None:
    redirected = " ".join(f"{fd}{'<' if fd == '0' else '>'}&-" for fd in closed)
    ended = subprocess.run(
        ["bash", "-c", f'exec "$@" {redirected}', "-", *line(command, there)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    if "1" not in closed and "2" in closed:
        assert ended.stdout


ENVIRONMENTS: list[dict[str, str]] = [
    {},
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"HOME": "/none"},
    {"HOME": ""},
    {"HOME": "/proc/1/fd"},
]


@pytest.mark.parametrize(("command", "environment"), in_turn([*SHOWING, "run"], ENVIRONMENTS), ids=str)
def test_any_environment_will_do(there: Path, command: str, environment: dict[str, str]) -> None:
    ended = subprocess.run(line(command, there), capture_output=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_job_that_is_given_as_a_folder_or_a_device_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null"), Path("/dev/zero"), Path("/dev/full")):
        for command in ("validate", "plan", "run"):
            ended = cli(command, path, cwd=tmp_path)
            assert ended.returncode in (1, 2)
            assert "Traceback" not in ended.stderr


def _ignores_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_a_caller_that_ignores_the_end_of_children_changes_no_result(tmp_path: Path, mode: str) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["(exit 3) || echo seen $?", "exit 7"]}))
    argv: list[str | Path] = [PROGRAM, "run", path, "--out", tmp_path / "run", "--isolation", mode]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, preexec_fn=_ignores_children)
    assert (ended.returncode, ended.stdout) == (7, "seen 3\n"), ended.stderr
    assert "Traceback" not in ended.stderr


def test_ctrl_c_while_the_command_starts_shows_no_traceback() -> None:
    start = "import os, signal, sys; os.kill(os.getpid(), signal.SIGINT)"
    started = f"{start}; sys.path[:] = {sys.path!r}; from pai_runtime.cli import main; sys.exit(main())"
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\nfrom pai_runtime import console_script as script\n"
        "from pai_task import interpreter\n"
        f"interpreter.python_argv = lambda *args: [sys.executable, '-c', {started!r}, *args[1:]]\n"
        "script.main()\n"
    )
    argv = [sys.executable, "-c", code, "plan", "no-such-file"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_nor_does_it_while_the_console_script_imports_what_it_needs() -> None:
    code = f"""
import os, signal, sys
sys.path[:] = {sys.path!r}
class Finder:
    def find_spec(name, path, target=None):
        if name.startswith("pai_task"):
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
from pai_runtime.console_script import main
main()
"""
    argv = [sys.executable, "-c", code, "plan", "no-such-file"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_analyze_refuses_a_device_and_takes_a_pipe() -> None:
    ended = cli("analyze", "/dev/zero")
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    piped = subprocess.run(
        ["bash", "-c", f"{shlex.quote(str(PROGRAM))} analyze <(echo nothing)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (piped.returncode, piped.stderr) == (1, "")


def test_what_was_never_written_to_a_log_holds_up_none_of_its_readers(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.all("succeeded", exitCode=0)
    played.end("succeeded")
    log = played.task_folder("worker/0/logs/user-all") / "current"
    with log.open("wb") as file:
        file.write(b"first\n")
        file.seek(4 << 40)
        file.write(b"last\n")
    for options in ([], ["--tail", "1"], ["--timestamps"]):
        ended = cli("logs", played.folder, "worker/0", *options)
        assert ended.returncode == 0
        assert ended.stdout.rstrip("\0").endswith("last\n")


@pytest.mark.needs("root", "mounts")
def test_a_run_that_succeeds_on_a_disk_that_is_full_by_then_has_succeeded(tmp_path: Path) -> None:
    worker = {"instances": 3, "commands": ["cat /dev/zero > fill 2>/dev/null || sync"]}
    path = write_job(tmp_path, job(worker=worker))
    disk = tmp_path / "disk"
    disk.mkdir()
    show = shlex.join([str(PROGRAM), "ps", f"{disk}/run", "--json"])
    script = f'mount -t tmpfs -o size=2m tmpfs {shlex.quote(str(disk))} && "$@" >&2; echo $?; {show}'
    argv: list[str | Path] = ["unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "run", path]
    ended = subprocess.run(
        [*argv, "--out", disk / "run", "--isolation", "none"], capture_output=True, text=True, check=False
    )
    status, _, shown = ended.stdout.partition("\n")
    assert (status, json.loads(shown)["state"]) == ("0", "succeeded"), ended.stderr
