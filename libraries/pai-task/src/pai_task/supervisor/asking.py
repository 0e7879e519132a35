"""The question to a plugin why a task failed."""

from __future__ import annotations

import time

from pai_task.analysis import Analysis
from pai_task.fast_json import loads
from pai_task.memfd import ScratchFile
from pai_task.supervisor.hooks import hook_program
from pai_task.supervisor.spawning import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pai_task.outcome import Result
    from pai_task.plan import Step, UseRecord
    from pai_task.supervisor.task import Task

_SECONDS = 60
"""Timeout in seconds for the plugin."""

_MOST_BYTES = 64 * 1024
"""Maximum size of the plugin's answer."""


def ask(
    task: Task, step: Step, use: UseRecord, failure: Mapping[str, Any], environment: Mapping[str, str]
) -> Analysis | None:
    """Return a plugin's analysis; None if it has none, or fails, which is said in ``runtime.log``."""
    answer = ScratchFile()
    answer.write(b"")
    until = time.monotonic() + _SECONDS
    try:
        program = hook_program(task.inputs, step, environment, {"PAI_ANALYSIS": answer.fd}, failure)
        ended = task.processes.run_step(program, lambda: min(until, task.stop.analysis_until()))
        if ended.code == 0:
            found = loads(answer.read(_MOST_BYTES) or b"null")
            return found and Analysis.from_json(found)
        why = f"it ended with exit code {ended.code}"
        if time.monotonic() >= until:
            why = f"it timed out after {_SECONDS} seconds"
    except (CannotStart, ValueError, RecursionError) as error:
        why = str(error)
    finally:
        answer.close()
    task.say(f"[WARNING] {use.label} could not analyse why the task failed: {why}")
    return None


def failure_of(
    result: Result, oom_kills: int | None, tails: tuple[str, str], logs: str | None
) -> dict[str, Any]:
    """Return what a plugin is told about a task that failed, as a JSON object."""
    return {
        "outcome": result.outcome,
        "code": result.code,
        "phase": result.phase,
        "user_code": result.user_code,
        "signal": result.signal,
        "plugin": result.failed and result.failed.plugin,
        "oom_kills": oom_kills,
        "tails": tails,
        "logs": logs,
    }
