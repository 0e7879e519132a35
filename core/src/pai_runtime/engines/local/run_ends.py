"""The hooks for the end of a run, which its run supervisor calls once, when all tasks have ended."""

import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from pai_task.masking import Masks
from pai_task.memfd import SCRIPT_FD, ScratchFile
from pai_task.placeholders import fill
from pai_task.plan import Step
from pai_task.supervisor.hooks import hook_program
from pai_task.supervisor.spawning import Program
from pai_task.supervisor.task import Inputs

_MOST_LINES = 20
_MOST_BYTES = 64 * 1024
_PIECE = 65536
_LOOK = 0.2
"""Seconds between two looks at whether a hook has ended, or is to be given up."""


def call_hooks(
    inputs: Inputs,
    steps: Sequence[Step],
    record: str,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    is_late: Callable[[], bool],
    *,
    has_succeeded: bool,
) -> None:
    """Call the hooks of some steps of a task, with its exit record, and say what they print.

    Of the options in `inputs` only those for hooks count. `environment` is what the task started with, to
    which its plan adds. A hook that runs when `is_late` says so is given up.
    """
    plan, secrets = inputs.plan, inputs.secrets
    values = {**environment, **{each.name: each.value for each in plan.variables()}}
    mask = Masks(secrets.values()).mask
    for step in steps:
        try:
            program = hook_program(
                inputs, step, fill(values, secrets), {}, record=record, has_succeeded=has_succeeded
            )
            said = _output(program, is_late)
        except Exception as error:  # noqa: BLE001 - the run has ended, whatever becomes of this
            said = f"{type(error).__name__}: {error}"
        for line in mask(said).splitlines()[:_MOST_LINES]:
            say(f"{plan.uses[step.use].name}: {line}")


def _output(program: Program, is_late: Callable[[], bool]) -> str:
    """Return what a hook prints first, and how it failed; end what it leaves behind. Raises OSError."""
    script = ScratchFile()
    script.write(program.script or b"")
    try:
        with subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" {SCRIPT_FD}<&0 </dev/null', "sh", *program.argv],
            stdin=script.fd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=program.environment,
            cwd=os.sep,
            start_new_session=True,
        ) as process:
            try:
                said = _read(process, is_late)
            finally:
                os.killpg(process.pid, signal.SIGKILL)  # it is not reaped yet: no other group has its id
    finally:
        script.close()
    failed = process.returncode not in (0, -signal.SIGKILL)
    return f"{said}\nended with status {process.returncode}" if failed else said


def _read(process: subprocess.Popen[bytes], is_late: Callable[[], bool]) -> str:
    """Return what a process prints until it ends; processes that it leaves may have its output open."""
    assert process.stdout is not None  # noqa: S101 - for the type checker
    output, said, poll = process.stdout.fileno(), bytearray(), select.poll()
    poll.register(output, select.POLLIN)  # not `select.select`, whose descriptors are below 1024
    while not is_late():
        if poll.poll(_LOOK * 1000):
            piece = os.read(output, _PIECE)
            if not piece:
                break
            said += piece[: _MOST_BYTES - len(said)]
        elif os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
    else:
        said += b"\ngiven up, as it took too long"
    return said.decode("utf-8", "backslashreplace").strip()
