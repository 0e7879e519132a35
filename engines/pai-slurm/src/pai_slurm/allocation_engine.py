"""The allocation that this process is in as an engine: runs are as on this machine, their tasks are steps."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pai_runtime.engine import RunRequest
from pai_runtime.engine.local import OPTIONS, LocalEngine, NewLocalRun
from pai_slurm.allocated import Allocated
from pai_slurm.allocation import seconds_left

_RESERVE: Final = 60.0
"""Seconds before the end of the allocation in which tasks are ended, with their exit callbacks."""


class AllocationEngine(LocalEngine):
    """The allocation around us, such as that of somebody's own batch script, or of ``salloc``."""

    options = tuple(option for option in OPTIONS if option.name != "isolation")
    cannot: Mapping[str, str] = {
        **LocalEngine.cannot,
        "--isolation": "tasks are steps of the allocation, which Slurm isolates as its operator has it",
    }
    prints_output = False

    def new_run(self, request: RunRequest) -> NewLocalRun:
        """Return a run that is not started yet, and ends before the allocation does."""
        left = seconds_left(os.environ.get("SLURM_JOB_ID", ""))
        if left is None:
            return NewLocalRun(request, Allocated)
        timeout = max(left - min(_RESERVE, left / 2), 1.0)
        if request.timeout is None or timeout < request.timeout:
            request.say(
                f"note: the allocation ends in {left:.0f} s; tasks are ended {left - timeout:.0f} s before"
            )
            request = replace(request, timeout=timeout)
        return NewLocalRun(request, Allocated)
