"""A reader of the times of a log, which are untrusted and may be written meanwhile."""

import os

from pai_task.log_file import RECORD_BYTES, read_time_record

_MOST_RECORDS = 1 << 25
"""Maximum number of records, twice as many as a log has by default."""

_RECORDS_AT_ONCE = 4096

Piece = tuple[float | None, bytes]
"""Bytes of a log after the time at which they were written (seconds since 1970; None: unknown)."""


class LogTimes:
    """A reader of the times of one file of a log, from its beginning; with `fd` None it has no times."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._read = 0
        self._records: list[tuple[int, float | None]] = []  # the next ones, the first of them last
        self._moment: float | None = None

    def split(self, offset: int, data: bytes) -> list[Piece]:
        """Split the bytes at an offset of the log by the times at which they were written."""
        pieces: list[Piece] = []
        done = 0
        while (record := self._next()) and record[0] < offset + len(data):
            start = record[0] - offset
            if start > done:
                pieces.append((self._moment, data[done:start]))
                done = start
            self._moment = record[1]
            del self._records[-1]
        pieces.append((self._moment, data[done:]))
        return pieces

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _next(self) -> tuple[int, float | None] | None:
        if not self._records and self._fd is not None and self._read < _MOST_RECORDS:
            data = os.pread(self._fd, _RECORDS_AT_ONCE * RECORD_BYTES, self._read * RECORD_BYTES)
            whole = range(0, len(data) - len(data) % RECORD_BYTES, RECORD_BYTES)
            self._records = [
                read_time_record(data[start : start + RECORD_BYTES]) for start in reversed(whole)
            ]
            self._read += len(whole)
        return self._records[-1] if self._records else None
