"""A run on Slurm: its directory on the shared file system is the truth, and Slurm knows what is not in it."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pai_runtime.engine import (
    CannotEnter,
    CannotRemove,
    ClusterError,
    LogReader,
    Plan,
    Progress,
    Run,
    RunReader,
    RunTask,
    TaskFile,
    TaskVariables,
    Unreadable,
)
from pai_runtime.engine.classes import replace
from pai_runtime.engine.keeping import read_provenance
from pai_runtime.engine.local import Folder, LocalRunReader, python_argv
from pai_runtime.engine.messages import printable
from pai_runtime.engine.records import LogName, RunOutcome
from pai_slurm.commands import Refused, call, program
from pai_slurm.parts import Elements, Part
from pai_slurm.queue import DONE_TO_IT, ENDS, Queue, QueuedJob, end_of
from pai_slurm.script import LOG
from pai_slurm.submitted import (
    ENGINE,
    End,
    Submitted,
    is_name,
    note_end,
    note_stop,
    read_submitted,
)

_MOST_BYTES: Final = 8 * 1024 * 1024
_MOST_SAID: Final = 1000
_STALE: Final = 10.0
"""Seconds for which the shared file system may show the run as it was before its end."""
_SUBMITTED_WITHIN: Final = 120.0
_CANCELLED: Final = "was cancelled on the cluster, as by scancel"


class SlurmRunReader(RunReader):
    """The run in a directory of `runs`, as the profile `on` has them."""

    def __init__(self, runs: Path, name: str, on: str, queue: Queue) -> None:
        self.named = name
        self.on = on
        self.path = runs / name
        self._queue = queue
        self._whole = Part(self.path, name)
        self._elements: Elements | None = None
        self._restarts = 0

    def run(self) -> Run | Unreadable:
        """Return the run as its supervisor tells; until there is one, or after it died, as Slurm does."""
        found = read_submitted(self.path) if is_name(self.named) else _none(self.named)
        if isinstance(found, Unreadable):
            return found
        run = self._told(found)
        if run.ended is not None:
            return self._explained(run, found)
        if not found.job_id:
            return _submitting(run)
        end = found.end
        if end is None:
            try:
                job = self._queue.job(found.job_id, since=run.started)  # before that, it has waited
            except ClusterError:
                return run
            if job is not None and not job.is_over:
                return _in_queue(run, found, job)
            end = self._over(found, job)
            run = self._told(found)  # it may have ended meanwhile
        return run if run.ended is not None else self._ended(run, found, end)

    def _told(self, found: Submitted) -> Run:
        """Return the run as its supervisor has last told; if it has told nothing yet, as it was submitted.

        Whether its supervisor is alive is not for the lock of the run to say: other nodes may not see it.
        """
        if found.is_array:
            array = self._array(found).told()
            return replace(array, stopping=found.is_stopped and array.ended is None)
        waiting, run = found.waiting, self._whole.inside.run()
        if found.restarts != self._restarts:
            self._whole.forget()
            self._restarts = found.restarts
        if isinstance(run, Unreadable) or not run.tasks:
            return waiting
        places = {task.name: self._whole.place(task.name) or {} for task in run.tasks}
        tasks = tuple(replace(task, node=places[task.name].get("node", "")) for task in run.tasks)
        stopping = found.is_stopped and run.ended is None
        told = replace(run, engine=ENGINE, file=waiting.file, user=waiting.user, tasks=tasks)
        return replace(told, stopping=stopping, lost=False, retries=run.retries + found.restarts)

    def _over(self, found: Submitted, job: QueuedJob | None) -> End:
        """Return how Slurm has ended the job, which is noted; None is one that it does not know any more."""
        if job is None:
            return note_end(self.path, End("", time.time()))
        return note_end(self.path, End(end_of(found.job_id, job.state), job.ended_at()))

    def _explained(self, run: Run, found: Submitted) -> Run:
        """Return a run that is over; if it has not succeeded, with what Slurm did to it."""
        if run.outcome == "succeeded" or not found.job_id or found.is_array:
            return run
        end = found.end
        if end is None:
            try:
                job = self._queue.job(found.job_id, since=run.ended or 0.0, is_ending=True)
            except ClusterError:
                return _not_over(run) if found.requeues else run
            if job is not None and job.is_waiting:
                return _in_queue(run, found, job)  # Slurm starts it again
            if job is not None and not job.is_over:
                is_soon = found.requeues or time.time() < (run.ended or 0.0) + _STALE
                return _not_over(run) if is_soon else run
            end = self._over(found, job)
        if found.is_stopped:
            is_cancelled = end.state == "CANCELLED"  # and had failed before Slurm put it back
            return replace(run, outcome="cancelled", failed_task=None) if is_cancelled else run
        return _done_to(run, found.job_id, end.state)

    def _ended(self, run: Run, found: Submitted, end: End) -> Run:
        """Return a run whose supervisor could not tell how it ended."""
        has_begun = run.tasks != found.waiting.tasks
        if has_begun and time.time() < end.at + _STALE:
            return run
        if found.is_array and (known := self._array(found).told(is_over=True)).ended is not None:
            return known
        if not end.state:
            return replace(run, lost=True, queued=False, stopping=False)
        is_cancelled = end.state == "CANCELLED" or found.is_stopped
        said = "" if is_cancelled or has_begun else self._said()
        is_by_hand = is_cancelled and not found.is_stopped
        # By its exit status, one that is told to stop has failed.
        state = end.state if end.state in DONE_TO_IT or not found.is_stopped else "CANCELLED"
        note = f"job {found.job_id} {_CANCELLED if is_by_hand else ENDS.get(state, state)}{said}"
        tasks = tuple(task if task.over else replace(task, state="stopped") for task in run.tasks)
        outcome: RunOutcome = "cancelled" if is_cancelled else "failed"
        ended = replace(run, tasks=tasks, ended=end.at, outcome=outcome, note=note)
        return replace(ended, queued=False, stopping=False)

    def _said(self) -> str:
        """Return the last line of what the batch script said, for a message."""
        try:
            with Folder.at(self.path) as folder:
                fd = folder.open(LOG)
                with os.fdopen(fd, "rb") as file:
                    file.seek(max(0, os.fstat(fd).st_size - _MOST_SAID))
                    lines = file.read(_MOST_SAID).decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {printable(last)}" if last else ""

    def _part(self, task: RunTask) -> Part:
        """Return the part of the run that a task is in."""
        found = read_submitted(self.path) if self._elements is None else None
        if isinstance(found, Submitted) and found.is_array:
            self._array(found)
        return self._elements.part(task.name) if self._elements else self._whole

    def _array(self, found: Submitted) -> Elements:
        self._elements = self._elements or Elements(self.path, self.named, found)
        return self._elements

    def _of(self, task: RunTask) -> LocalRunReader:
        return self._part(task).inside

    def progress(self, task: RunTask) -> Progress | None:
        """Return the progress of a task."""
        return self._of(task).progress(task)

    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        """Return the exit record of a task."""
        return self._of(task).exit_record(task)

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogReader:
        """Return a reader of a log, which is a file."""
        return self._of(task).log(task, log, attempt)

    def variables(self, task: RunTask) -> TaskVariables:
        """Return the variables of a task."""
        return self._of(task).variables(task)

    def plan(self, task: RunTask) -> Plan | None:
        """Return the plan of a task; None if it is not kept, or is invalid."""
        return self._of(task).plan(task)

    def events(self, task: RunTask, attempt: int | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the events of an attempt of a task, oldest first; empty if they are not kept."""
        return self._of(task).events(task, attempt)

    def files(self, task: RunTask, path: str) -> Iterator[TaskFile]:
        """Yield a file or directory in the working directory of a task."""
        return self._of(task).files(task, path)

    def provenance(self, *, whole: bool = True) -> Mapping[str, Any]:  # noqa: ARG002 - it is one file
        """Return what the run came from."""
        return read_provenance(self.path)

    def cancel(self) -> str:
        """Cancel the run: one that runs ends its tasks itself, with their exit callbacks."""
        found = read_submitted(self.path)
        if isinstance(found, Unreadable) or not found.job_id:
            raise ClusterError(
                f"the job of {self.named} is not known; squeue --me lists jobs, scancel ends them"
            )
        with Folder.at(self.path) as folder:
            is_again = note_stop(folder)
        try:
            if is_again:
                call("scancel", found.job_id)
            else:
                call("scancel", "--state=PENDING", found.job_id)
                call("scancel", "--batch", "--signal=INT", found.job_id)
        except Refused:
            if not isinstance(run := self.run(), Run) or not run.over:
                raise
        return "run this again to kill all tasks now"

    def remove(self) -> None:
        """Remove the directory of a run that is over. Raises `CannotRemove`."""
        run = self.run()
        if isinstance(run, Run) and not run.over:
            raise CannotRemove("it is not over; stop it first")
        if isinstance(run, Unreadable) and run.is_missing:
            raise CannotRemove(run.reason)
        try:
            with Folder.at(self.path.parent) as runs:
                runs.remove(self.named)
        except OSError as error:
            raise CannotRemove(f"{error.filename}: {error.strerror}") from None

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Run a program in a task, by a step beside its own on its node. Raises `CannotEnter`."""
        part = self._part(task)
        place = part.place(task.name)
        if task.state != "running" or place is None:
            raise CannotEnter("it is not running; exec needs a task that is running or held")
        terminal = ["--pty"] if os.isatty(0) and os.isatty(1) else ["--input=all"]
        group = [f"--het-group={place['group']}"] if place["group"] else []
        step = [
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={place['node']}",
            "--overlap",
            "--mem=0",
            "--gres=none",
        ]
        try:
            command = [program("srun"), f"--jobid={part.job_id()}", *group, *step, *terminal, "--quiet"]
        except ClusterError as error:
            raise CannotEnter(str(error)) from None
        inside = python_argv("pai_slurm.entering", str(part.folder / task.name), *argv)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_J")}
        return subprocess.run([*command, *inside], env=environment, check=False).returncode

    def connected(self, task: RunTask, address: str) -> AbstractContextManager[str]:
        """Return the address of a service, which is on the node of its task. Raises `CannotEnter`."""
        host = (self._part(task).place(task.name) or {}).get("host")
        url = urlsplit(address)
        if (
            url.scheme not in ("http", "https")
            or not host
            or url.hostname != host
            or url.username is not None
        ):
            raise CannotEnter(f"expected an http or https URL of its node, found {printable(address)}")
        return nullcontext(address)

    def is_away(self) -> bool:
        """Return whether Slurm did not answer when it was last asked."""
        return self._queue.is_away


def _in_queue(run: Run, found: Submitted, job: QueuedJob) -> Run:
    """Return a run whose job waits, with the reason, or runs, or would if it were not suspended."""
    if not job.is_waiting:
        run = replace(run, queued=False, stopping=found.is_stopped)
    if not (why := job.why_not_running()):
        return run
    note = f"job {found.job_id} {why}"
    is_put_back = job.is_waiting and not found.is_array
    told = replace(found.waiting, retries=run.retries) if is_put_back else run
    noted = ("waiting",) if job.is_waiting or job.rest else ("waiting", "running")
    return replace(
        told,
        tasks=tuple(replace(task, note=note) if task.state in noted else task for task in told.tasks),
    )


def _not_over(run: Run) -> Run:
    """Return a run that its supervisor has ended, and Slurm has not."""
    return replace(run, ended=None, outcome=None, stopping=True)


def _done_to(run: Run, job_id: str, state: str) -> Run:
    """Return a run that is over and nobody has stopped here, with what Slurm did to its job."""
    if state == "CANCELLED":
        return replace(run, outcome="cancelled", note=f"job {job_id} {_CANCELLED}")
    why = DONE_TO_IT.get(state, "")
    if not why:
        return run
    failed = run.failed_task if state == "OUT_OF_MEMORY" else None
    return replace(run, outcome="failed", failed_task=failed, note=f"job {job_id} {why}")


def _submitting(run: Run) -> Run:
    """Return a run that is being submitted, or was abandoned meanwhile."""
    is_lost = time.time() > run.started + _SUBMITTED_WITHIN
    return replace(run, lost=is_lost, queued=not is_lost)


def _none(name: str) -> Unreadable:
    return Unreadable(f"'{printable(name)}' is no name of a run", is_missing=True)
