"""A run can be stopped, and ends at its time limit, whatever its tasks do to those who watch them."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pai_task.launch import LaunchOptions
from tests.attacks.test_task_folder import make_odd
from tests.played_run import PlayedRun
from tests.support import (
    NOT_ANALYSED,
    PROGRAM,
    callback,
    cli,
    content,
    exit_record,
    job,
    until,
    write_job,
)
from tests.task_harness import TaskRun, make_fifo, plan, run_task, shell

pytestmark = pytest.mark.process

OF_A_TASK = (
    "state.json",
    "exit.yaml",
    ".exit.yaml.part",
    ".state.json.part",
    "variables.json",
    "plan.json",
    "shared.json",
    "release",
    "logs/runtime.log",
    "logs/user-all/current",
    "logs/user-stdout/current",
    "private",
    "attempts",
    "files",
    "written",
    "tasks.json",
)


def looks(tasks: int) -> list[tuple[str, ...]]:
    """The command lines that look at a run, the folder where they run, and at each of its tasks."""
    variables = [("variables", ".", f"worker/{index}") for index in range(tasks)]
    return [("ps", "."), ("ps", ".", "--json"), ("logs", "."), *variables]


def test_a_fifo_in_place_of_any_file_of_a_task_holds_nobody_up(tmp_path: Path) -> None:
    """Each task has it in place of another file."""
    tidy = {"name": "tidy", "callbacks": [callback("taskExits", "echo tidied")]}
    own = f"set -- {' '.join(OF_A_TASK)}; shift $PAI_TASK_INDEX"
    make = 'cd ..; rm -rf "$1"; mkfifo "$1"; mkfifo "$1.1" 2>/dev/null || :'
    worker = {
        "instances": len(OF_A_TASK),
        "prerequisites": ["tidy"],
        "commands": [own, make, "exec sleep 1000"],
        "taskRetryCount": 1,
    }
    extras = {"gangAllocation": False, "holdOnFailure": "1s", **NOT_ANALYSED}
    path = write_job(tmp_path, job(prerequisites=[tidy], worker=worker, extras=extras))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "none", "--timeout", "2s")
    assert (ended.returncode, "Traceback" in ended.stderr) == (242, False), ended.stderr
    for command in looks(len(OF_A_TASK)):
        assert "Traceback" not in cli(*command, cwd=tmp_path / "run").stderr


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "link", "device"])
def test_those_who_look_at_a_run_wait_for_nothing_in_it(tmp_path: Path, kind: str) -> None:
    names = ("state.json", "exit.yaml", "variables.json", "logs/user-all/current")
    played = PlayedRun(tmp_path, worker=len(names))
    for index, name in enumerate(names):
        odd = played.task_folder(f"worker/{index}") / name
        odd.parent.mkdir(parents=True, exist_ok=True)
        odd.unlink(missing_ok=True)
        make_odd(odd, kind)
    for command in looks(len(names)):
        ended = cli(*command, cwd=tmp_path)
        assert ended.returncode in (0, 2)
        assert "Traceback" not in ended.stderr
        assert Path("/etc/hostname").read_text().strip() not in ended.stdout


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_nor_for_the_record_of_the_run_itself(tmp_path: Path, kind: str) -> None:
    make_odd(tmp_path / "run.json", kind)
    ended = cli("ps", tmp_path)
    assert (ended.returncode, "unreadable" in ended.stdout) == (0, True)


OVERDUE = """
import sys
import pai_runtime.engines.local.task as local_task
from pai_runtime.cli import main
local_task._OVERDUE = local_task._AT_ONCE = 0.5
sys.exit(main())
"""
"""The command, with a shorter time after which the engine ends what does not heed it."""


def overdue(folder: Path, *options: str) -> subprocess.Popen[str]:
    tell = f"echo > {shlex.quote(str(folder))}/up"
    path = write_job(folder, job(worker={"commands": ["kill -STOP $PPID", tell, "sleep 1000"]}))
    argv = [
        sys.executable,
        "-c",
        OVERDUE,
        "run",
        str(path),
        "--out",
        str(folder / "run"),
        "--isolation",
        "none",
    ]
    return subprocess.Popen([*argv, *options], stderr=subprocess.PIPE, text=True)


def record(folder: Path) -> object:
    found = yaml.safe_load((folder / "run/worker/0/exit.yaml").read_text())
    return found["outcome"], found["exitCode"]


def test_a_task_that_stops_its_supervisor_is_ended_by_the_engine_at_its_time_limit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    with overdue(tmp_path, "--timeout", "1s") as engine:
        (tmp_path / "up").read_text()
        assert engine.wait(60) == 242
    assert record(tmp_path) == ("timeout", 242)


@pytest.mark.parametrize("times", [1, 2])
def test_and_when_the_run_is_cancelled(tmp_path: Path, times: int) -> None:
    os.mkfifo(tmp_path / "up")
    with overdue(tmp_path) as engine:
        (tmp_path / "up").read_text()
        pid = json.loads((tmp_path / "run/worker/0/state.json").read_text())["pid"]
        for _ in range(times):
            os.kill(pid, signal.SIGSTOP)
            engine.send_signal(signal.SIGINT)
        assert engine.wait(60) == 130
    assert json.loads((tmp_path / "run/run.json").read_text())["outcome"] == "cancelled"


_ORDERS = {
    "first the job's end": ("exit 7", ""),
    "first the caller": ("exit 7", "wait_for left"),
}
"""What the other task ends with, and what its exit callback does."""


@pytest.mark.parametrize("order", _ORDERS)
def test_a_task_that_has_to_end_for_two_reasons_runs_its_exit_callbacks(tmp_path: Path, order: str) -> None:
    """Only the second signal of a person means at once."""
    end, callback_of_other = _ORDERS[order]
    for name in ("up", "told", "go", "exits", "left"):
        os.mkfifo(tmp_path / name)
    where = shlex.quote(str(tmp_path))
    waits = f"wait_for() {{ read -r line < {where}/$1; }}; say() {{ echo > {where}/$1; }}"
    exits = f"{waits}; if [ $PAI_TASK_INDEX = 0 ]; then say exits; {callback_of_other or ':'}; fi"
    tidy = {"name": "tidy", "callbacks": [callback("taskExits", exits, "echo tidied > tidied")]}
    first = f"wait_for go; {end}"
    second = "trap 'say told; wait_for go; exit 0' TERM; say up; while :; do sleep 0.01; done"
    commands = [waits, f"if [ $PAI_TASK_INDEX = 0 ]; then {first}; else {second}; fi"]
    worker = {"instances": 2, "prerequisites": ["tidy"], "commands": commands}
    path = write_job(tmp_path, job(prerequisites=[tidy], worker=worker))
    run = tmp_path / "run"
    argv: list[str | Path] = [PROGRAM, "run", path, "--plain", "--out", run, "--isolation", "none"]

    def take(name: str) -> None:
        (tmp_path / name).read_text()

    def give(name: str) -> None:
        (tmp_path / name).write_text("\n")

    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as engine:
        take("up")
        give("go")
        take("exits")
        if order == "first the caller":
            engine.send_signal(signal.SIGTERM)
        take("told")
        if order == "first the caller":
            give("left")
            events = tmp_path / "run/events.jsonl"
            until(lambda: b"decided" in content(events))
        else:
            engine.send_signal(signal.SIGTERM)
            assert engine.stderr
            next(line for line in engine.stderr if "Ctrl-C" in line)
        give("go")
        engine.communicate()
    assert engine.returncode == 7
    for index in (0, 1):
        assert (tmp_path / f"run/worker/{index}/work/tidied").exists()
        assert "callbackFailures" not in exit_record(tmp_path / f"run/worker/{index}")


def test_inside_of_its_namespace_a_task_cannot_stop_its_supervisor(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["kill -STOP $PPID", "exec sleep 1000"]}))
    assert cli("run", path, "--out", tmp_path / "run", "--timeout", "2s").returncode == 242


def test_a_stopped_command_is_told_to_go_on_when_it_has_to_end(tmp_path: Path) -> None:
    make_fifo(tmp_path, "pid")
    command = "trap 'echo saved; exit 0' TERM; echo $$ > pid; kill -STOP $$; while :; do sleep 0.01; done"
    run = TaskRun(plan(tmp_path, command), LaunchOptions(grace=1000))
    status = Path("/proc", (tmp_path / "work/pid").read_text().strip(), "status")
    until(lambda: "State:\tT" in status.read_text())
    run.send(signal.SIGTERM)
    assert (run.end(), run.stdout) == (143, b"saved\n")


class TestMask:
    """What is written to ``$PAI_MASK`` and ``$PAI_ENV``."""

    @pytest.mark.parametrize("size", [65537, 200_000, 5_000_000])
    def test_any_amount_at_once_holds_nobody_up(self, tmp_path: Path, size: int) -> None:
        command = f"head -c {size} /dev/zero | tr '\\0' x > \"$PAI_MASK\"; echo done"
        run = run_task(plan(tmp_path, command))
        assert (run.process.returncode, run.stdout) == (0, b"done\n")

    def test_more_than_the_bound_is_an_error_that_is_said(self, tmp_path: Path) -> None:
        run = run_task(plan(tmp_path, '(yes a-value-of-many | head -c 1000000 > "$PAI_MASK") || :'))
        assert any(line.startswith("[ERROR]") and "$PAI_MASK" in line for line in run.runtime_log)

    def test_a_value_that_comes_in_two_pieces_is_masked_whole(self, tmp_path: Path) -> None:
        command = 'printf first-half > "$PAI_MASK"; echo; printf -- \'-second-half\\n\' > "$PAI_MASK"'
        command += "; echo first-half-second-half"
        run = run_task(plan(tmp_path, command))
        assert run.stdout.split() == [b"******"]

    def test_a_program_that_a_step_starts_finds_it_too(self, tmp_path: Path) -> None:
        program = "import os; print('hide-this-value', file=open(os.environ['PAI_MASK'], 'w'))"
        closed = f"import subprocess, sys; subprocess.run([sys.executable, '-c', \\\"{program}\\\"])"
        run = run_task(plan(tmp_path, f'python3 -c "{closed}"\necho hide-this-value'))
        assert run.stdout == b"******\n"

    def test_a_process_that_outlives_its_step_finds_it_too(self, tmp_path: Path) -> None:
        make_fifo(tmp_path, "go")
        late = '(read -r line < go; echo hide-this-value >> "$PAI_MASK"; echo > told) &'
        script = f"mkfifo told\n{late}"
        command = "echo > go; read -r line < told; echo hide-this-value"
        run = run_task(plan(tmp_path, command, [shell("taskStarts", 0, script)]))
        assert run.stdout == b"******\n"

    def test_too_much_of_an_environment_is_not_taken_over_and_said(self, tmp_path: Path) -> None:
        script = "echo KNOWN=1 >> $PAI_ENV; (yes A=b | head -c 20000000 >> $PAI_ENV) || :"
        run = run_task(plan(tmp_path, "echo ${KNOWN-unset}", [shell("taskStarts", 0, script)]))
        assert run.stdout == b"unset\n"
        assert any(line.startswith("[ERROR]") and "$PAI_ENV" in line for line in run.runtime_log)


@pytest.mark.parametrize(
    "leave",
    [
        r"printf 'A=b\0c\n' > $PAI_ENV",
        r"printf 'A<<E\nb\0c\nE\n' > $PAI_ENV",
        "{ printf PATH+=; head -c 200000 /dev/zero | tr '\\0' x; echo; } > $PAI_ENV",
    ],
)
def test_a_variable_with_which_nothing_could_be_started_is_not_taken_over_and_said(
    tmp_path: Path, leave: str
) -> None:
    steps = [shell("taskStarts", 0, leave), shell("taskExits", 0, "echo exits >> ran")]
    run = run_task(plan(tmp_path, "echo command >> ran", steps))
    assert (run.process.returncode, (tmp_path / "work/ran").read_text()) == (0, "command\nexits\n")
    assert any("[WARNING] what 'a' wrote to $PAI_ENV: line 1: " in line for line in run.runtime_log)


def test_few_open_files_are_said_and_no_traceback(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"instances": 3}))
    for number in range(8, 44, 4):
        script = f'ulimit -n {number}; exec "$@"'
        argv = [
            "sh",
            "-c",
            script,
            "sh",
            str(PROGRAM),
            "run",
            str(path),
            "--out",
            str(tmp_path / str(number)),
        ]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.returncode == 0 or ended.stderr


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_many_files_that_the_caller_has_left_open_are_no_reason_to_fail(tmp_path: Path, mode: str) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["ls /proc/self/fd | wc -l"]}))
    with (tmp_path / "left-open").open("w") as file:
        left_open = [os.dup(file.fileno()) for _ in range(1100)]
        try:
            ended = subprocess.run(
                [PROGRAM, "run", path, "--out", tmp_path / "run", "--isolation", mode],
                pass_fds=left_open,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            for fd in left_open:
                os.close(fd)
    assert (ended.returncode, ended.stdout) == (0, "4\n"), ended.stderr


@pytest.fixture(autouse=True)
def _limit() -> Iterator[None]:
    """More files may be open than most systems allow at first."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4096), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
