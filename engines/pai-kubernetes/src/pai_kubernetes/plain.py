"""Plain values that the interface of engines passes: tasks by role and index, logs and parts of them."""

from typing import Literal

TaskName = tuple[str, int]
LogName = Literal["user", "runtime"]
Piece = tuple[float | None, bytes]
"""A part of a log, and the time at which it was written, if known."""
