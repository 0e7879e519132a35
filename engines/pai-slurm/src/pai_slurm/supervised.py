"""The run supervisor of what was submitted in a directory; in an array, it is that of one task."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from pai_runtime.engine import ClusterError, NewRun, Run, RunRequest
from pai_runtime.engine.classes import replace
from pai_runtime.engine.local import Folder, LocalRunReader, killed_by
from pai_runtime.engine.submitting import SECRETS, run_submission
from pai_slurm.allocation import Allocation
from pai_slurm.allocation_engine import AllocationEngine, NewAllocatedRun
from pai_slurm.array import end_element
from pai_slurm.commands import call
from pai_slurm.queue import end_of, starts_again
from pai_slurm.submitted import (
    End,
    Settings,
    element_folder,
    is_stopped,
    note_end,
    note_job,
    read_job,
    read_settings,
)

_EARLIER: Final = "earlier"
_ENDS_WITHIN: Final = 300.0
_AGAIN: Final = 1.0
_RESTARTS: Final = "SLURM_RESTART_COUNT"
_ARRAY: Final = "SLURM_ARRAY_JOB_ID"
_NUMBER: Final = "SLURM_ARRAY_TASK_ID"


def run_submitted(path: Path, allocation: Allocation) -> int:
    """Run what was submitted in a directory, and return its exit status."""
    number = os.environ.get(_NUMBER)
    with Folder.at(path) as folder:
        if is_stopped(folder):  # while Slurm put the job back, or started it
            folder.unlink(SECRETS)
            if number is None:
                note_end(path, End("CANCELLED", time.time()))  # to Slurm it has failed
            return killed_by(signal.SIGINT)
        if number is None:
            return _Batch(path, path, read_settings(folder), allocation).run(folder)
        part = element_folder(path, int(number))
        with folder.folder(str(part.relative_to(path)), make=True) as own:
            batch = _Batch(path, part, read_settings(folder), allocation, int(number))
            code = batch.run(own)
        new = batch.new if batch.has_ended() else None
        if new is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # from another one that sees the job decided
            if told := end_element(folder, new.job, int(number), code, os.environ[_ARRAY]):
                new.tell_end(has_succeeded=told.code == 0)
        if not read_job(folder)[0]:
            note_job(folder, os.environ[_ARRAY])  # since whoever has submitted it was killed meanwhile
    return code


class _Batch:
    """The run of a submission, or of one task `only`; what there is of that is in a directory `part`."""

    new: NewAllocatedRun | None = None

    def __init__(
        self, path: Path, part: Path, settings: Settings, allocation: Allocation, only: int | None = None
    ) -> None:
        self._path = path
        self._out = part / path.name
        self._settings = settings
        self._only = only
        self._job_id = os.environ["SLURM_JOB_ID"]
        self._restarts = int(os.environ.get(_RESTARTS, "0"))
        self._engine = AllocationEngine(settings.images, only, allocation)

    def run(self, own: Folder) -> int:
        """Run it, and return its exit status; `own` is the folder of the part."""
        if self._restarts:
            self._put_aside(own)
        note_job(own, self._job_id, self._restarts, sync=False)  # a sync would delay the tasks
        keeps = self._settings.requeues or self._only is not None
        code = run_submission(self._path, self._out, self._new_run, keeps_secrets=keeps, only=self._only)
        if self._settings.requeues:
            self._let_go_on(own, code)
        return code

    def has_ended(self) -> bool:
        """Return whether the run has come to an end of its own."""
        run = LocalRunReader(self._out).run()
        return isinstance(run, Run) and run.outcome not in (None, "cancelled")

    def _new_run(self, request: RunRequest) -> NewRun:
        storages = tuple((name, Path(directory)) for name, directory in self._settings.storages.items())
        given = replace(request, options={"storage": storages}, earlier_attempts=self._restarts)
        self.new = self._engine.new_run(given)
        return self.new

    def _put_aside(self, own: Folder) -> None:
        """Keep what an earlier attempt has left, once it has surely ended."""
        until = time.monotonic() + _ENDS_WITHIN
        while isinstance(run := LocalRunReader(self._out).run(), Run) and not run.over:
            if time.monotonic() > until:
                raise SystemExit("pai-runtime: an earlier attempt of the job still runs, as on a lost node")
            time.sleep(_AGAIN)
        if own.exists(self._out.name):
            own.move(self._out.name, own, f"{_EARLIER}/{self._restarts - 1}")

    def _let_go_on(self, own: Folder, code: int) -> None:
        """Have a job started again that a preemption gave time to end; else see whether it is over."""
        if code and not is_stopped(own) and end_of(self._job_id, "RUNNING") == "PREEMPTED":
            try:
                call("scontrol", "requeue", self._job_id)
            except ClusterError as error:
                sys.stderr.write(f"pai-runtime: scontrol requeue: {error}\n")
        elif not (code and starts_again(self._job_id, self._restarts)):
            own.unlink(SECRETS)
