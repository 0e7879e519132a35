"""The supervisor with real processes and signals."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pai_task
from pai_task.exit_codes import RUNTIME_ERROR, TIMEOUT
from pai_task.launch import DEFAULT, LaunchOptions
from pai_task.placeholders import placeholder
from pai_task.record import replace
from tests.support import is_running
from tests.task_harness import TaskRun, plan, run_task, shell

pytestmark = pytest.mark.process

_EXITS = [
    shell("taskFails", 0, "echo fails $PAI_TASK_OUTCOME $PAI_TASK_EXIT_CODE"),
    shell("taskExits", 0, "echo exits $PAI_TASK_OUTCOME $PAI_TASK_EXIT_CODE in $PAI_TASK_PHASE"),
]


def _started(tmp_path: Path, command: str, options: LaunchOptions = DEFAULT) -> TaskRun:
    """A task whose command has got to the place where it writes to the FIFO ``ready``."""
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "ready")
    run = TaskRun(plan(tmp_path, command, _EXITS), options)
    run.wait_for("ready")
    return run


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_command_that_saves_its_work_on_sigterm_gets_to_do_so(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    command = "trap 'echo saved > file; exit 0' TERM\necho > ready\nwhile :; do sleep 0.01; done"
    run = _started(tmp_path, command)
    run.send(number)
    assert run.end() == code
    assert (tmp_path / "work" / "file").read_text() == "saved\n"
    assert run.record["outcome"] == "cancelled"
    assert f"exits cancelled {code} in taskExits" in run.runtime_log
    assert not any(line.startswith("fails") for line in run.runtime_log)


def test_a_program_that_saves_its_work_on_sigterm_gets_to_do_so_though_its_shell_is_gone(
    tmp_path: Path,
) -> None:
    program = "trap 'sleep 0.3; echo saved > file; exit' TERM\necho > ready\nwhile :; do sleep 0.01; done"
    run = _started(tmp_path, f"sh -c {shlex.quote(program)}\necho done")
    run.send(signal.SIGTERM)
    assert run.end() == 143
    assert (tmp_path / "work" / "file").read_text() == "saved\n"


def test_a_command_that_ignores_sigterm_is_killed_with_its_whole_group(tmp_path: Path) -> None:
    command = "trap '' TERM\nsleep 1000 & echo $! > child\necho > ready\nwait"
    run = _started(tmp_path, command, LaunchOptions(grace=0.2))
    child = int((tmp_path / "work" / "child").read_text())
    run.send(signal.SIGTERM)
    assert run.end() == 143
    assert not is_running(child)


def test_a_second_signal_ends_the_task_at_once_without_more_callbacks(tmp_path: Path) -> None:
    command = "trap 'echo > again' TERM\nmkfifo again\necho > ready\nwhile :; do sleep 0.01 || :; done"
    run = _started(tmp_path, command, LaunchOptions(grace=1000))
    run.send(signal.SIGTERM)
    run.wait_for("again")
    run.send(signal.SIGTERM)
    assert run.end() == 143
    assert not any(line.startswith("exits") for line in run.runtime_log)
    assert run.record["outcome"] == "cancelled"


@pytest.mark.parametrize(("of_engine", "of_job"), [(0.5, 0), (None, 0.5), (0.5, 1000), (1000, 0.5)])
def test_the_shorter_time_limit_ends_the_command_as_timeout(
    tmp_path: Path, of_engine: float | None, of_job: float
) -> None:
    planned = replace(plan(tmp_path, "sleep 1000", _EXITS), timeout=of_job)
    run = run_task(planned, LaunchOptions(timeout=of_engine))
    assert run.process.returncode == TIMEOUT
    assert run.record["outcome"] == "timeout"
    said = [line for line in run.runtime_log if not line.startswith("[INFO]")]
    assert said[-2:] == [f"fails timeout {TIMEOUT}", f"exits timeout {TIMEOUT} in taskExits"]


def test_a_background_process_that_keeps_the_output_open_does_not_delay_the_end(tmp_path: Path) -> None:
    step = shell("taskStarts", 0, "sleep 1000 & echo $! > of_step")
    run = run_task(plan(tmp_path, "sleep 1000 & echo $! > of_command; echo done", [step]))
    assert run.process.returncode == 0
    assert run.stdout_log == b"done\n"
    for name in ("of_step", "of_command"):
        assert not is_running(int((tmp_path / "work" / name).read_text()))


def test_a_background_process_of_a_start_step_lives_while_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "question")
    os.mkfifo(tmp_path / "work" / "answer")
    step = shell("taskStarts", 0, "(read line < question; echo logged later; echo $line$line > answer) &")
    run = run_task(plan(tmp_path, "echo 1 > question; cat answer", [step]))
    assert run.stdout_log == b"11\n"
    assert "logged later" in run.runtime_log


_SECRET = "s3cr3t-value\nof two lines"


def test_a_secret_is_in_the_script_and_in_no_file_argv_or_log(tmp_path: Path) -> None:
    text = f"printf '%s' '{placeholder('y')}'\n"
    steps = [shell("taskStarts", 0, f"{text}\nexport KEPT='{placeholder('y')}'"), shell("taskExits", 0, text)]
    same = f'[ "$KEPT" = \'{placeholder("y")}\' ] && [ "$VARIABLE" = "$KEPT" ] || exit 9'
    command = f"{text}\n{same}\ncat /proc/[0-9]*/cmdline 2>/dev/null || :\nexit 0"
    environment = {"VARIABLE": placeholder("y")}
    run = run_task(plan(tmp_path, command, steps, environment), secrets={"y": _SECRET})
    assert run.process.returncode == 0
    assert run.stdout.startswith(b"******")
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"s3cr3t" not in path.read_bytes(), path
    assert b"s3cr3t" not in run.stdout + run.stderr


def test_a_secret_never_becomes_syntax_in_the_environment(tmp_path: Path) -> None:
    value = "'; touch /tmp/never; echo \"$(id)` \\"
    run_task(
        plan(tmp_path, 'printf %s "$V" > value', environment={"V": placeholder("y")}), secrets={"y": value}
    )
    assert (tmp_path / "work" / "value").read_text() == value


def test_a_secret_that_is_not_given_ends_the_task_before_anything_runs(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "echo ran", environment={"V": placeholder("y")}), secrets={"z": "1"})
    assert run.process.returncode == RUNTIME_ERROR
    assert "missing values of secrets: 'y'" in run.record["message"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"planVersion": 99}', '{"planVersion": 1}', "\x00"])
def test_what_is_no_plan_is_refused_with_a_record_and_no_traceback(tmp_path: Path, text: str) -> None:
    run = TaskRun(plan(tmp_path), plan_text=text)
    assert run.end() == RUNTIME_ERROR
    assert b"Traceback" not in run.stderr
    assert run.record["exitCode"] == RUNTIME_ERROR


_SLOW = {
    "argparse",
    "contextlib",
    "ctypes",
    "dataclasses",
    "enum",
    "importlib",
    "json",
    "pathlib",
    "re",
    "selectors",
}
_SLOW |= {"shutil", "signal", "subprocess", "tempfile", "traceback", "typing"}


def test_a_task_without_plugins_loads_our_own_code_and_little_of_the_standard_library(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.append(sys.argv.pop(1)); import pai_task.supervisor.__main__ as supervisor\n"
        "code = supervisor.main(); print(*sys.modules); sys.exit(code)"
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps(plan(tmp_path, "true").to_json()))
    source = Path(pai_task.__file__).parents[1]
    bare = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, source, tmp_path], capture_output=True, check=True, text=True
    )
    loaded = set(bare.stdout.split())
    assert "pai_task.supervisor.supervisor" in loaded
    assert {name.partition(".")[0] for name in loaded if name.startswith("pai_")} == {"pai_task"}
    assert not _SLOW & loaded


def test_a_system_that_gives_too_few_files_leaves_a_record_and_no_traceback(tmp_path: Path) -> None:
    for most in range(8, 48, 4):
        folder = tmp_path / str(most)
        run = run_task(plan(folder, "echo done"), wrap=["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh"])
        if (folder / "exit.yaml").exists():
            assert run.record["exitCode"] == run.process.returncode
            if run.process.returncode == 0:
                return
            assert run.process.returncode in (240, 241)
            assert b"Traceback" not in run.stderr
    pytest.fail("it never runs")
