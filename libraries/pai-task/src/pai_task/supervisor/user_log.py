"""The user's output: each stream byte for byte in a file, and both merged line by line."""

from __future__ import annotations

import time

from pai_task.console import LONGEST_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from pai_task.console import Console
    from pai_task.log_file import LogFile
    from pai_task.masking import Masker

    class Target(Protocol):
        """A receiver of the merged output of both streams."""

        def write(self, data: bytes) -> None:
            """Take the next bytes."""


_LONGEST_WAIT = 1.0
"""Seconds for which the beginning of a line waits for its end: a progress bar may have none for hours."""


class UserLog:
    """One of the user's streams, masked: written to its own file at once, and merged with the other in turn.

    `waiting` is masked and not merged yet: whole lines that wait for their turn, and the beginning of a line
    since the time `since`. `in_turn` counts the lines that have ended and have a turn. `fed` is when
    the stream last had output (monotonic clock).
    """

    def __init__(self, masker: Masker, file: LogFile, console: Console, together: LinesInTurn) -> None:
        self._masker = masker
        self._file = file
        self._together = together
        self.console = console
        self.waiting = b""
        self.since = 0.0
        self.in_turn = 0
        self.fed = 0.0
        self.is_over = False
        together.streams.append(self)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.is_over = False
        self.fed = time.monotonic()
        self._write(self._masker.feed(data))

    def idle(self) -> bool:
        """Write out, after a pause, what needs no more input to be masked; return whether anything waits."""
        self._write(self._masker.idle())
        return bool(self.waiting)

    def flush(self) -> None:
        """Write out everything at the end of the stream."""
        self.is_over = True
        self._write(self._masker.flush())

    @property
    def owed(self) -> int:
        """The number of lines that have ended, but whose ends the masker still holds back."""
        return self._masker.held_back().count(b"\n")

    def _write(self, data: bytes) -> None:
        if data:
            self._file.write(data)
        self._together.add(self, data)


class LinesInTurn:
    """A merger of both streams into `targets` and the consoles: whole lines in the order of their ends.

    A line waits for its end, up to a second or `LONGEST_LINE` bytes; then its beginning is written, and the
    rest as it comes. If the other stream then ends a line, that line starts on a new one in the targets. A
    line that has ended waits as long for earlier lines whose ends are held back.
    """

    def __init__(self, *targets: Target) -> None:
        self.streams: list[UserLog] = []
        self._targets = targets
        self._turns: list[tuple[UserLog, int]] = []  # lines of a stream that have ended, in order
        self._unfinished: UserLog | None = None  # whose line the targets end with

    def add(self, stream: UserLog, data: bytes) -> None:
        """Take new output of a stream; empty if only time has passed, or the stream has ended."""
        if not stream.waiting:
            stream.since = time.monotonic()
        stream.waiting += data
        if not self._turns:
            self._put(stream, stream.waiting.rfind(b"\n") + 1)
        self._queue(stream)
        self._take_turns()
        if all(each.is_over for each in self.streams):
            self._end()
            return
        overdue = len(stream.waiting) > LONGEST_LINE or time.monotonic() >= stream.since + _LONGEST_WAIT
        if self._turns and overdue:
            self._end_turns()
        elif not self._turns and (overdue or stream is self._unfinished):
            self._put(stream, len(stream.waiting))

    def _queue(self, stream: UserLog) -> None:
        owed = stream.owed
        if self._turns or owed:  # else all lines that have ended are out, and need not be counted
            new = stream.waiting.count(b"\n") + owed - stream.in_turn
            if new > 0:
                self._turns.append((stream, new))
                stream.in_turn += new

    def _take_turns(self) -> None:
        while self._turns:
            stream, lines = self._turns[0]
            missing = self._put_lines(stream, lines)
            if missing:
                self._turns[0] = stream, missing
                return
            del self._turns[0]

    def _end_turns(self) -> None:
        """Stop waiting for lines that are held back."""
        for stream, lines in self._turns:
            self._put_lines(stream, lines)
            stream.in_turn = 0
        self._turns.clear()

    def _end(self) -> None:
        self._end_turns()
        for stream in self.streams:
            self._put(stream, len(stream.waiting))
            stream.console.end()

    def _put_lines(self, stream: UserLog, lines: int) -> int:
        """Write `lines` lines of a stream; return how many of them are not there yet."""
        end = 0
        while lines and (found := stream.waiting.find(b"\n", end) + 1):
            end = found
            lines -= 1
            stream.in_turn -= 1
        self._put(stream, end)
        return lines

    def _put(self, stream: UserLog, size: int) -> None:
        """Write the first `size` waiting bytes of a stream."""
        if not size:
            return
        data, stream.waiting = stream.waiting[:size], stream.waiting[size:]
        stream.since = time.monotonic()
        stream.console.write(data)
        begins_anew = self._unfinished not in (None, stream)
        for target in self._targets:
            target.write(b"\n" + data if begins_anew else data)
        self._unfinished = None if data.endswith(b"\n") else stream
