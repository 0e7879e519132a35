"""The hooks for the end of a run, which its run supervisor calls once, when all tasks have ended."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from pai_runtime.supervisor.hooks import hook_program
from pai_runtime.supervisor.spawning import Program
from pai_runtime.supervisor.task import Inputs
from pai_runtime.task.interpreter import hook_argv
from pai_runtime.task.launch import LaunchOptions
from pai_runtime.task.masking import Masks
from pai_runtime.task.memfd import SCRIPT_FD, ScratchFile
from pai_runtime.task.placeholders import fill
from pai_runtime.task.plan import Plan, Step

_SECONDS = 60.0
"""Timeout in seconds for one hook."""
_MOST_LINES = 20
_MOST_BYTES = 64 * 1024
_PIECE = 65536


def call_hooks(
    plan: Plan,
    steps: Sequence[Step],
    record: str,
    environment: Mapping[str, str],
    secrets: Mapping[str, str],
    say: Callable[[str], None],
    *,
    has_succeeded: bool,
) -> None:
    """Call the hooks of some steps of a task, with its exit record, and say what they print.

    `environment` is what the task started with, to which its plan adds.
    """
    values = {**environment, **{each.name: each.value for each in plan.variables()}}
    inputs = Inputs(plan, secrets, LaunchOptions(hook_argv=hook_argv()))
    mask = Masks(secrets.values()).mask
    for step in steps:
        program = hook_program(
            inputs, step, fill(values, secrets), {}, record=record, has_succeeded=has_succeeded
        )
        for line in mask(_output(program)).splitlines()[:_MOST_LINES]:
            say(f"{plan.uses[step.use].name}: {line}")


def _output(program: Program) -> str:
    """Return what a hook prints first, or why it could not be called; end what it leaves behind."""
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
            assert process.stdout is not None  # noqa: S101 - for the type checker
            try:
                return _read(process.stdout.fileno())
            finally:
                os.killpg(process.pid, signal.SIGKILL)  # it is not reaped yet: no other group has its id
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    finally:
        script.close()


def _read(output: int) -> str:
    until, said = time.monotonic() + _SECONDS, bytearray()
    while (left := until - time.monotonic()) > 0 and select.select([output], [], [], left)[0]:
        piece = os.read(output, _PIECE)
        if not piece:
            return said.decode("utf-8", "backslashreplace")
        said += piece[: _MOST_BYTES - len(said)]
    return f"given up after {_SECONDS:g} s"
