"""Plain values that the interface of engines passes: names of tasks, states, logs and parts of them."""

from typing import Literal

TaskName = tuple[str, int]
LogName = Literal["user", "runtime"]
TaskStatus = Literal["waiting", "running", "succeeded", "failed", "stopped"]
RunOutcome = Literal["succeeded", "failed", "cancelled"]
Severity = Literal["error", "warning", "note"]
Piece = tuple[float | None, bytes]
"""A part of a log, and the time at which it was written, if known."""
