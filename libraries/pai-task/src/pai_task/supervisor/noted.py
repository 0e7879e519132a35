"""What a step or service prints for people to see at once, and in the exit record."""

from __future__ import annotations

from pai_task.runtime_log import AT, NOTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pai_task.supervisor.logs import RuntimeLog

_LONGEST = 1000
"""Bytes of a line that are looked at."""


class Noted:
    """A stream into ``runtime.log``.

    `note` is called with the text of each line that begins with `NOTE`, `at` with those that begin with `AT`.
    """

    def __init__(
        self, stream: RuntimeLog, note: Callable[[str], None], at: Callable[[str], None] | None = None
    ) -> None:
        self._stream = stream
        self._marks = {NOTE.encode(): note, **({AT.encode(): at} if at else {})}
        self._line = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._stream.feed(data)
        first, *others = data.split(b"\n")
        self._line = (self._line + first[:_LONGEST])[:_LONGEST]
        for begun in others:
            for mark, tell in self._marks.items():
                if self._line.startswith(mark):
                    tell(self._line[len(mark) :].decode("utf-8", "replace"))
            self._line = begun[:_LONGEST]

    def idle(self) -> bool:
        """Handle a pause in the stream."""
        return self._stream.idle()

    def flush(self) -> None:
        """Handle the end of the stream."""
        self._stream.flush()
