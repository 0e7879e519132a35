"""The duties of an init process, as PID 1 of a PID namespace and as an ordinary process."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.task_harness import TaskRun, make_fifo, plan, run_task, shell

pytestmark = pytest.mark.process

_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")
_ORPHANS = 100

# Processes whose parents die before them end while others are waited for; then no zombie may be left.
_COMMAND = f"""
supervisor=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$$/status)
zombies() {{
    cat /proc/[0-9]*/status 2> /dev/null | awk -v parent="$supervisor" '
        /^State:/ {{ state = $2 }}
        /^PPid:/ && $2 == parent && state == "Z" {{ n++ }}
        END {{ print n + 0 }}'
}}
mkfifo gate
exec 9<> gate
for i in $(seq {_ORPHANS}); do (sh -c 'read line <&9; echo >> ended; exit 3' &); done
for i in $(seq {_ORPHANS}); do echo >&9; done
for i in $(seq {_ORPHANS}); do code=0; sh -c "exit $i" || code=$?; [ $code = $i ] || exit 99; done
until [ "$(wc -l < ended)" = {_ORPHANS} ]; do :; done
until [ "$(zombies)" = 0 ]; do :; done
echo "supervisor is $supervisor"
exit 42
"""


@pytest.fixture(
    params=[pytest.param("as PID 1", marks=pytest.mark.needs("root", "mounts")), "as an ordinary process"]
)
def wrap(request: pytest.FixtureRequest) -> Sequence[str]:
    """What the supervisor is started with."""
    return _NAMESPACE if request.param == "as PID 1" else ()


def test_a_hundred_orphans_leave_no_zombie_and_no_wrong_status(tmp_path: Path, wrap: Sequence[str]) -> None:
    run = run_task(plan(tmp_path, _COMMAND), wrap=wrap)
    assert run.process.returncode == 42, run.stderr
    assert (run.stdout == b"supervisor is 1\n") == bool(wrap)


def test_signals_reach_the_command_and_its_exit_callbacks_run(tmp_path: Path, wrap: Sequence[str]) -> None:
    command = (
        "trap 'echo saved; exit 0' TERM\necho $PPID > supervisor\necho > ready\nwhile :; do sleep 0.01; done"
    )
    make_fifo(tmp_path, "ready")
    run = TaskRun(plan(tmp_path, command, [shell("taskExits", 0, "echo exits $PAI_TASK_OUTCOME")]), wrap=wrap)
    run.wait_for("ready")
    if wrap:
        # The process in the namespace is the only child of the one that made it.
        children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text()
        subprocess.run(["kill", "-TERM", children.strip()], check=True)
    else:
        run.send(signal.SIGTERM)
    assert run.end() == 143
    assert run.stdout == b"saved\n"
    assert "exits cancelled" in run.runtime_log


def test_a_process_that_has_left_every_group_and_session_is_gone_at_the_end(
    tmp_path: Path, wrap: Sequence[str]
) -> None:
    sleeper = f"sleep 1000.{os.getpid()}"
    escape = f"setsid setsid sh -c 'echo > ready; exec {sleeper}' &\n(setsid {sleeper} &)\nread line < ready"
    make_fifo(tmp_path, "ready")
    run = TaskRun(plan(tmp_path, escape), wrap=wrap)
    assert run.end() == 0
    assert not any(sleeper.replace(" ", "\0").encode() in command for command in _all_commands())


def _all_commands() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


PASSED_ON = ["USR1", "USR2", "QUIT", "ALRM", "WINCH", "CONT", "RTMIN"]


@pytest.mark.parametrize("name", PASSED_ON)
def test_a_signal_that_stops_nothing_is_passed_on_to_the_command(tmp_path: Path, name: str) -> None:
    command = f"trap 'echo caught; exit 5' {name}\necho > ready\nwhile :; do sleep 0.01; done"
    make_fifo(tmp_path, "ready")
    run = TaskRun(plan(tmp_path, command))
    run.wait_for("ready")
    run.send(getattr(signal, f"SIG{name}"))
    assert run.end() == 5
    assert run.stdout == b"caught\n"


@pytest.mark.parametrize("name", PASSED_ON)
def test_between_commands_it_harms_nobody(tmp_path: Path, name: str) -> None:
    # The step's parent is the supervisor, and its own shell ignores what it is sent.
    run = run_task(plan(tmp_path, "true", [shell("taskStarts", 0, f"trap '' {name}; kill -{name} $PPID")]))
    assert run.process.returncode == 0, run.stderr
