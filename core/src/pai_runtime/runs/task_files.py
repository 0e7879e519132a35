"""What an engine says of the files of a task."""

from collections.abc import Callable, Sequence
from typing import Literal

from pai_task.record import record


@record(frozen=True)
class TaskFile:
    """A file or directory of a task, below what is copied, or that itself, whose `path` is empty.

    Only of a file, `read` returns the next bytes, at most as many as asked for, of `size` in all.
    """

    path: Sequence[str]
    kind: Literal["file", "folder", "other"]
    size: int = 0
    executable: bool = False
    read: Callable[[int], bytes] = lambda _most: b""
