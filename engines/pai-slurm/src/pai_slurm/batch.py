"""The process of a batch script: the run supervisor of what was submitted in a directory."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from pai_runtime.engine import NewRun, Run, RunRequest
from pai_runtime.engine.local import Folder, LocalRunReader
from pai_runtime.engine.submitting import SECRETS, run_submission
from pai_slurm.allocation_engine import AllocationEngine
from pai_slurm.commands import call
from pai_slurm.queue import end_of, starts_again
from pai_slurm.submitted import Settings, note_job, read_settings

_EARLIER: Final = "earlier"
_ENDS_WITHIN: Final = 300.0
_AGAIN: Final = 1.0
_RESTARTS: Final = "SLURM_RESTART_COUNT"


def main() -> int:
    """Run what was submitted in the directory that is named, and return its exit status."""
    path, job_id = Path(sys.argv[1]), os.environ["SLURM_JOB_ID"]
    restarts = int(os.environ.get(_RESTARTS, "0"))
    with Folder.at(path) as folder:
        settings = read_settings(folder)
        if restarts:
            _put_aside(path, folder, restarts)
        note_job(folder, job_id, restarts)
        code = _run(path, settings, restarts)
        if settings.requeues:
            _let_go_on(folder, job_id, restarts, code)
    return code


def _run(path: Path, settings: Settings, restarts: int) -> int:
    def new_run(request: RunRequest) -> NewRun:
        storages = tuple((name, Path(directory)) for name, directory in settings.storages.items())
        given = replace(request, options={"storage": storages}, earlier_attempts=restarts)
        return AllocationEngine(settings.images).new_run(given)

    return run_submission(path, path / path.name, new_run, keeps_secrets=settings.requeues)


def _put_aside(path: Path, folder: Folder, restarts: int) -> None:
    """Keep what an earlier attempt has left, once it has surely ended."""
    until = time.monotonic() + _ENDS_WITHIN
    while isinstance(run := LocalRunReader(path / path.name).run(), Run) and not run.over:
        if time.monotonic() > until:
            raise SystemExit("pai-runtime: an earlier attempt of the job still runs, as on a lost node")
        time.sleep(_AGAIN)
    if folder.exists(path.name):
        folder.move(path.name, folder, f"{_EARLIER}/{restarts - 1}")


def _let_go_on(folder: Folder, job_id: str, restarts: int, code: int) -> None:
    """Have a job started again that a preemption gave time to end; else see whether it is over."""
    if code and end_of(job_id, "RUNNING") == "PREEMPTED":
        call("scontrol", "requeue", job_id)
    elif not code or not starts_again(job_id, restarts):
        folder.unlink(SECRETS)
