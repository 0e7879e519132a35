"""The allocation that this process is in as an engine: runs are as on this machine, their tasks are steps."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Final

from pai_runtime.engine import Job, Placement, RunRequest
from pai_runtime.engine.classes import replace
from pai_runtime.engine.local import OPTIONS, LocalEngine, NewLocalRun
from pai_slurm.allocated import Allocated
from pai_slurm.allocation import Allocation
from pai_slurm.images import Images

_RESERVE: Final = 60.0
"""Seconds before the end of the allocation in which tasks are ended, with their exit callbacks.

The time to save their work is added.
"""


class AllocationEngine(LocalEngine):
    """The allocation around us, such as that of somebody's own batch script, or of ``salloc``.

    Slurm is asked about it for each run, unless `allocation` is given, for one run.
    """

    options = tuple(option for option in OPTIONS if option.name != "isolation")
    cannot: Mapping[str, str] = {
        **LocalEngine.cannot,
        "--isolation": "tasks are steps of the allocation, which Slurm isolates as its operator has it",
    }
    prints_output = False

    def __init__(
        self, images: Images | None = None, only: int | None = None, allocation: Allocation | None = None
    ) -> None:
        super().__init__()
        self._allocation = allocation
        self._site = partial(Allocated, images=images, only=only)

    def new_run(self, request: RunRequest) -> "NewAllocatedRun":
        """Return a run that is not started yet, and ends before the allocation does."""
        return NewAllocatedRun(request, self._site, self._allocation or Allocation(os.environ))


class NewAllocatedRun(NewLocalRun):
    """A run in the allocation around us that is not started yet."""

    job: Job

    def __init__(self, request: RunRequest, site: "partial[Allocated]", allocation: Allocation) -> None:
        super().__init__(request)
        self._allocation = allocation
        self._allocated = partial(site, allocation=allocation)

    def place(self, job: Job) -> Placement:
        """Return a placement; tasks end before the allocation, with the time to save their work."""
        self.job, limit = job, ""
        request, job_id = self._request, os.environ.get("SLURM_JOB_ID", "")
        left = self._allocation.seconds_left()
        if left is not None:
            timeout = max(left - min(_RESERVE + job.saving_time, left / 2), 1.0)
            if request.timeout is None or timeout < request.timeout:
                early = f"{left - timeout:.0f} s before"
                request.say(f"note: the allocation ends in {left:.0f} s; tasks are ended {early}")
                self._request = replace(request, timeout=timeout)
                limit = f"the allocation, Slurm job {job_id}"
        self._site = partial(self._allocated, limit=limit)
        return super().place(job)

    def discard(self) -> None:
        """Remove what was created, if it is empty, and stop asking Slurm."""
        self._allocation.close()
        super().discard()
