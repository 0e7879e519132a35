"""The lines of a task on one of our own streams, with a prefix if several tasks share it."""

import os
import select

LONGEST_LINE = 65536
"""Bytes of a line that are kept for its end to come; where lines are prefixed, a longer one is broken."""


class Console:
    """One of this process's own streams: passed on as it comes, or in whole lines behind a prefix.

    When the reader has gone (``| head``), the rest is dropped.
    """

    def __init__(self, fd: int, prefix: bytes) -> None:
        self._fd = fd
        self._lines = LinePrefix(prefix) if prefix else None
        self._open = True

    def write(self, data: bytes) -> None:
        """Pass `data` on."""
        self._put(self._lines.feed(data) if self._lines else data)

    def end(self) -> None:
        """The end: a last line without newline is passed on too."""
        if self._lines:
            self._put(self._lines.flush())

    def _put(self, data: bytes) -> None:
        while data and self._open:
            data = data[self._put_some(data) :]

    def _put_some(self, data: bytes) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            select.select([], [self._fd], [])
        except OSError:
            self._open = False
        return 0


class LinePrefix:
    """Cuts a stream into lines and puts a prefix before each; a line comes out when it is whole."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self._rest = bytearray()

    def feed(self, data: bytes) -> bytes:
        """The lines that are whole now."""
        self._rest += data
        if b"\n" not in data:
            return self.flush() if len(self._rest) > LONGEST_LINE else b""
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return b"".join(self.prefix + line + b"\n" for line in lines)

    def flush(self) -> bytes:
        """A last line that has no newline, with one."""
        rest, self._rest = bytes(self._rest), bytearray()
        return self.prefix + rest + b"\n" if rest else b""
