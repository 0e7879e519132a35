"""The output of a task on our own streams, with a prefix before each line if several tasks share them."""

import os
import select

LONGEST_LINE = 65536
"""Maximum bytes of a line that are kept until it ends; with prefixes, a longer line is broken."""


class Console:
    """One of this process's own streams: output is passed on as it comes, or in whole lines with a prefix.

    When the reader is gone (``| head``), the rest is dropped.
    """

    def __init__(self, fd: int, prefix: bytes) -> None:
        self._fd = fd
        self._lines = LinePrefix(prefix) if prefix else None
        self._open = True

    def write(self, data: bytes) -> None:
        """Pass `data` on to the stream."""
        self._put(self._lines.feed(data) if self._lines else data)

    def end(self) -> None:
        """Pass on a last line without a newline at the end of the output."""
        if self._lines:
            self._put(self._lines.flush())

    def _put(self, data: bytes) -> None:
        while data and self._open:
            data = data[self._put_some(data) :]

    def _put_some(self, data: bytes) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            poll = select.poll()  # not `select.select`, whose descriptors are below 1024
            poll.register(self._fd, select.POLLOUT)
            poll.poll()
        except OSError:
            self._open = False
        return 0


class LinePrefix:
    """A filter that puts a prefix before each line of a stream; a line is passed on once it is complete."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self._rest = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, and return the lines that are now complete, with their prefix."""
        self._rest += data
        if b"\n" not in data:
            return self.flush() if len(self._rest) > LONGEST_LINE else b""
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return b"".join(self.prefix + line + b"\n" for line in lines)

    def flush(self) -> bytes:
        """Return the last line, with its prefix and a newline, if it has none yet."""
        rest, self._rest = bytes(self._rest), bytearray()
        return self.prefix + rest + b"\n" if rest else b""
