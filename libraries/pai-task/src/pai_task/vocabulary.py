"""The enumerations of words in plans, states and records, as types.

For annotations, and for those who need all words of one kind; what a supervisor loads imports this for type
checkers only, since `typing` takes time.
"""

from typing import Literal

FailurePolicy = Literal["fail", "ignore"]
Event = Literal["taskStarts", "taskSucceeds", "taskFails", "taskExits"]
Phase = Literal[
    "init", "taskStarts", "command", "analysis", "taskSucceeds", "taskFails", "taskExits", "runEnds"
]
Restart = Literal["never", "on-failure", "always"]
MountKind = Literal["storage", "nfs"]

FailedOutcome = Literal["failed", "setup-failed", "timeout"]
"""The outcomes that a plugin is asked to explain."""
Outcome = Literal["ok", "cancelled", FailedOutcome]
StopReason = Literal["cancelled", "timeout"]
CutShort = Literal["stopped", "skipped"]
"""Why a step did not end by itself: the runtime stopped it, or never started it."""
Behavior = Literal["TRANSIENT", "PERMANENT", "UNKNOWN"]

RetryOn = Literal["retryable", "always"]
"""The choice which failed tasks and jobs are retried."""

Kept = Literal["held", "lingering"]
StatePhase = Literal[Phase, Kept, "ending", "ended"]
"""The phase of a running task; in `ending`, its services are told to end."""

Phases = Literal["all", "init", "rest"]
"""The part of a plan that a supervisor runs."""
