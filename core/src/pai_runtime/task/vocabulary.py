"""The words that plans, states and records use.

For annotations, and for those who need all words of one kind; what a supervisor loads imports this for type
checkers only, since `typing` takes time.
"""

from typing import Literal

FailurePolicy = Literal["fail", "ignore"]
Event = Literal["taskStarts", "taskSucceeds", "taskFails", "taskExits"]
Phase = Literal["init", "taskStarts", "command", "analysis", "taskSucceeds", "taskFails", "taskExits"]
Restart = Literal["never", "on-failure", "always"]
MountKind = Literal["storage", "nfs"]

FailedOutcome = Literal["failed", "setup-failed", "timeout"]
"""How a task ended of which a plugin is asked why."""
Outcome = Literal["ok", "cancelled", FailedOutcome]
StopReason = Literal["cancelled", "timeout"]
CutShort = Literal["stopped", "skipped"]
"""Why a step has not come to its own end: the runtime stopped it, or never started it."""
Behavior = Literal["TRANSIENT", "PERMANENT", "UNKNOWN"]

RetryOn = Literal["retryable", "always"]
"""Which failed tasks and jobs are retried."""

Kept = Literal["held", "lingering"]
StatePhase = Literal[Phase, Kept, "ending", "ended"]
"""What a task is doing; `ending`: its services are told to end."""

Phases = Literal["all", "init", "rest"]
"""Which part of a plan a supervisor runs."""
