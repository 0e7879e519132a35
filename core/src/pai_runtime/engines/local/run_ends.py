"""The hooks for the end of a run, which its run supervisor calls once, when all tasks have ended."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence

from pai_runtime.supervisor.hooks import hook_program
from pai_runtime.supervisor.spawning import Program
from pai_runtime.supervisor.task import Inputs
from pai_runtime.task.interpreter import hook_argv
from pai_runtime.task.launch import LaunchOptions
from pai_runtime.task.masking import Masks
from pai_runtime.task.memfd import SCRIPT_FD
from pai_runtime.task.placeholders import fill
from pai_runtime.task.plan import Plan, Step

_SECONDS = 60.0
"""Timeout in seconds for one hook."""
_MOST_LINES = 20


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
    """Return what a hook prints, or why it could not be called."""
    argv = ["/bin/sh", "-c", f'exec "$@" {SCRIPT_FD}<&0 </dev/null', "sh", *program.argv]
    try:
        return subprocess.run(
            argv,
            input=program.script,
            env=program.environment,
            timeout=_SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=os.sep,
            start_new_session=True,
            check=False,
        ).stdout.decode("utf-8", "backslashreplace")
    except subprocess.TimeoutExpired:
        return f"given up after {_SECONDS:g} s"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
