"""What Slurm alone knows of a user's jobs, asked for all of them at once, and not often."""

import os
import pwd
import re
import time
from typing import Final

from pai_runtime.engine import ClusterError
from pai_runtime.engine.classes import record, replace
from pai_runtime.engine.messages import printable
from pai_slurm.commands import call
from pai_slurm.times import moment_of

_EVERY: Final = 5.0
"""Seconds between two questions while a job waits; while all of interest run, six times as many."""
_RUNNING: Final = 30.0
_ENDING: Final = 0.5
_LONGEST: Final = 60.0
_FORMAT: Final = "%i|%T|%S|%e|%r"
_FIELDS: Final = 5

_REASONS: Final = {
    "Resources": "waits for resources",
    "Priority": "waits behind jobs of higher priority",
    "None": "waits to be looked at by the scheduler",
    "BeginTime": "waits for its begin time, as after a requeue",
    "Dependency": "waits for another job",
    "JobHeldUser": "is held; scontrol release lets it start",
    "JobHeldAdmin": "is held by an administrator",
    "launch_failed_requeued_held": "is held: a node could not start it; scontrol release lets it start",
    "PartitionDown": "waits: its partition is down",
    "PartitionInactive": "waits: its partition is inactive",
    "Reservation": "waits for its reservation",
    "Licenses": "waits for licences",
}
_NEVER: Final = {
    "PartitionNodeLimit": "asks for more nodes than its partition has",
    "PartitionTimeLimit": "asks for more time than its partition allows",
    "PartitionConfig": "asks for what no node of its partition has",
    "BadConstraints": "asks for features that no node has",
}
_ONE_OF: Final = re.compile(r"\+0$|_(\d+|\[.*\])$")
"""What follows the id of a job: its first component, which has the others' fate, or some of its array."""
_PAUSED: Final = {
    "SUSPENDED": "is suspended; scontrol resume lets it go on",
    "STOPPED": "is stopped; scancel --signal=CONT lets it go on",
}
DONE_TO_IT: Final = {
    "TIMEOUT": "was ended by its time limit",
    "NODE_FAIL": "was ended because a node was lost",
    "PREEMPTED": "was preempted by one of a higher priority",
    "OUT_OF_MEMORY": "was ended because it ran out of memory",
    "BOOT_FAIL": "was ended because a node did not start",
    "DEADLINE": "was ended by its deadline",
}
"""What is said of a job by its state, if Slurm has ended it."""

ENDS: Final = {
    **DONE_TO_IT,
    "CANCELLED": "was cancelled",
    "FAILED": "has failed",
    "COMPLETED": "has ended",
    "REVOKED": "was moved to another cluster",
}
"""What is said of a job by its state, once it is over."""


@record(frozen=True)
class QueuedJob:
    """A job as ``squeue`` shows it: its state, such as ``PENDING``, why, its likely start, and its end.

    `rest` is what waits of an array of which some has begun.
    """

    state: str
    start: str
    end: str
    reason: str
    rest: "QueuedJob | None" = None

    @property
    def is_waiting(self) -> bool:
        """Whether it has not begun."""
        return self.state == "PENDING"

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and how will not change."""
        return self.state in ENDS

    def ended_at(self) -> float:
        """Return when it has ended, in seconds since 1970, and by the clock of this machine not later."""
        now = time.time()
        try:
            return min(moment_of(self.end), now)
        except ValueError:
            return now

    def why_not_running(self) -> str:
        """Return why it waits, in words, with Slurm's own estimate of its start; empty if it runs."""
        if not self.is_waiting:
            return self.rest.why_not_running() if self.rest else _PAUSED.get(self.state, "")
        name = self.reason.partition(",")[0].strip("()")
        if never := _NEVER.get(name):
            return f"will never start: it {never} ({name})"
        if name.startswith(("QOS", "Assoc")):
            what = f"waits for a limit of its {'QOS' if name.startswith('QOS') else 'account'} ({name})"
        elif name == "ReqNodeNotAvail":
            what = "waits for nodes that are down, drained or reserved"
        else:
            what = _REASONS.get(name) or f"waits: {printable(self.reason)}"
        return what if self.start in ("N/A", "") else f"{what}; may start at {self.start.replace('T', ' ')}"


class Queue:
    """The jobs of this user, as they were at the last look; one that fails is made again later each time."""

    def __init__(self) -> None:
        self._jobs: dict[str, QueuedJob] = {}
        self._looked: float | None = None
        self._next = 0.0
        self._failures = 0

    @property
    def is_away(self) -> bool:
        """Whether the last look failed."""
        return self._failures > 0

    def job(self, job_id: str, *, since: float, is_ending: bool = False) -> QueuedJob | None:
        """Return a job as it was at a time or later; None if Slurm does not know it any more.

        Raises `ClusterError` if it could not be asked since.
        """
        found = self._jobs.get(job_id)
        every = _ENDING if is_ending else _RUNNING if found and not found.is_waiting else _EVERY
        is_new = (found is None or is_ending) and (self._looked is None or self._looked < since)
        now = time.time()
        if now >= self._next and (is_new or self._looked is None or now - self._looked >= every):
            self._look(now)
        if self._looked is None or self._looked < since:
            raise ClusterError("Slurm does not answer")
        return self._jobs.get(job_id)

    def _look(self, now: float) -> None:
        user = pwd.getpwuid(os.geteuid()).pw_name
        try:
            said = call("squeue", "--noheader", "--states=all", f"--user={user}", f"--format={_FORMAT}")
        except ClusterError:
            self._failures += 1
            self._next = now + min(_EVERY * 2**self._failures, _LONGEST)
            return
        rows = [line.split("|", _FIELDS - 1) for line in said.splitlines()]
        jobs: dict[str, QueuedJob] = {}
        for row in rows:
            if len(row) == _FIELDS:
                name, state, start, end, reason = row
                job_id = _ONE_OF.sub("", name)
                jobs[job_id] = _both(jobs.get(job_id), QueuedJob(state, start, end, reason))
        self._jobs, self._looked, self._failures, self._next = jobs, now, 0, 0.0


def _both(one: QueuedJob | None, other: QueuedJob) -> QueuedJob:
    """Return what an array is of which some are one, and others the other: first that it runs, or waits."""
    if one is None:
        return other
    first, second = sorted((one, other), key=_rank)
    rest = next((each for each in (first.rest, second.rest, second) if each and each.is_waiting), None)
    return first if first.is_waiting or first.is_over else replace(first, rest=rest)


def _rank(job: QueuedJob) -> int:
    if not job.is_over:
        return 1 if job.is_waiting else 0
    return 3 if job.state in ("COMPLETED", "FAILED") else 2


def end_of(job_id: str, state: str) -> str:
    """Return how a job has ended that is over in a state.

    One that was preempted and does not end at once, as its partition lets it, is shown by how it ended then.
    """
    if state in ("", "COMPLETED", "NODE_FAIL", "PREEMPTED"):
        return state
    try:
        said = call("scontrol", "show", "job", job_id, "--oneliner")
    except ClusterError:
        return state
    preempted = re.search(r"\bPreemptTime=(\S+)", said)
    return "PREEMPTED" if preempted and preempted[1] not in ("None", "N/A", "Unknown") else state


def starts_again(job_id: str, restarts: int) -> bool:
    """Return whether Slurm has put a job back that it had started again so often; true if it cannot tell."""
    try:
        said = call("scontrol", "show", "job", job_id, "--oneliner")
    except ClusterError:
        return True
    found = re.search(r"\bRestarts=(\d+)", said)
    return found is not None and int(found[1]) > restarts
