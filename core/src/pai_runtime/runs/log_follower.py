"""A reader of a log while ``pai_task.log_file.LogFile`` writes and rotates it."""

import contextlib
import errno
import os
from pathlib import Path

from pai_runtime.runs.log_times import LogTimes, Piece
from pai_task.folder import Folder
from pai_task.launch import Rotation

_MOST_OF_FILE = 2 * Rotation().size
"""Maximum bytes read from one file: logs are rotated sooner, so a larger one is somebody else's."""

_MOST_FILES = 100
"""Maximum number of files of one log. A task can create empty ones faster than they can be read."""


class LogFollower:
    """A reader that returns what is new in a log, starting with the oldest file that is kept.

    It keeps the current file open, and reads it to its end even after it was renamed or removed. What is
    rotated away before it is reached is lost. A file that has become shorter is read again from its start.
    Holes, which logs do not have, are skipped. `times`, if the log has one, is the file in the same folder
    with its times.
    """

    def __init__(self, run: Path, name: str, times: str | None = None) -> None:
        self.name = str(run / name)
        self._run = run
        self._above, _, self._name = name.rpartition("/")
        self._fd: int | None = None
        self._offset, self._left = 0, _MOST_OF_FILE
        self._passed: os.stat_result | None = None
        self._times_name = times
        self._is_timed = False  # until somebody asks for times: they take one more open file
        self._times = LogTimes(None)

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`; empty if there is nothing new, or no log yet.

        Raises `OSError` if something cannot be read.
        """
        data, passed = b"", 0
        while len(data) < most and passed < _MOST_FILES:
            piece = self._read_here(most - len(data))
            data += piece
            if not piece and not self._go_on():
                break
            passed += not piece
        return data

    def read_timed(self, most: int) -> list[Piece]:
        """Return the next bytes as `read` does, split into pieces by the time at which they were written."""
        self._is_timed = True
        for _ in range(_MOST_FILES):
            if data := self._read_here(most):
                return self._times.split(self._offset - len(data), data)
            if not self._go_on():
                break
        return []

    def size(self) -> int:
        """Return the number of bytes in the log's files."""
        sizes = []
        with contextlib.suppress(OSError), self._folder() as folder:
            for file in folder.names():
                with contextlib.suppress(OSError):  # it has been rotated away
                    if file.startswith(self._name):
                        sizes.append(folder.stat(file).st_size)
        return sum(sizes)

    def tail(self, most: int) -> bytes:
        """Return the last `most` bytes of the live file; empty if there is none."""
        try:
            with self._folder() as folder, os.fdopen(folder.open(self._name), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
                return file.read(most)
        except OSError:
            return b""

    def is_at_end(self) -> bool:
        """Return True: once a task has ended, all its output is in its files."""
        return True

    def close(self) -> None:
        """Close the open files."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._times.close()

    def _read_here(self, most: int) -> bytes:
        if self._fd is None:
            return b""
        self._offset, end = _next_data(self._fd, self._offset)
        data = os.pread(self._fd, min(most, self._left, end - self._offset), self._offset)
        self._offset += len(data)
        self._left -= len(data)
        return data

    def _go_on(self) -> bool:
        """Return whether there is more to read, in the current file or, after opening it, in the next one."""
        try:
            folder = self._folder()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # else it would seem that there is no log
                raise
            return False  # there is no log yet, or none any more
        with folder:
            return self._go_on_in(folder)

    def _folder(self) -> Folder:
        with Folder.at(self._run) as run:
            return run.folder(self._above)

    def _go_on_in(self, folder: Folder) -> bool:
        following = self._following(folder)
        if self._fd is not None:
            # After the look for the next file: whoever has begun that one has written all of this one.
            here = os.fstat(self._fd)
            if here.st_size < self._offset:
                self._offset, self._left = 0, _MOST_OF_FILE
            if here.st_size > self._offset and self._left:
                return True
        return following is not None and self._open(folder, *following)

    def _open(self, folder: Folder, number: int, expected: os.stat_result) -> bool:
        """Open the next file; return False if it was renamed meanwhile, and has to be found again."""
        try:
            fd = folder.open(self._numbered(number))
        except FileNotFoundError:
            return False
        times = self._open_times(folder, number)
        # After its times were opened: they are of the file that has its number.
        now = self._stat(folder, number)
        if now is None or not os.path.samestat(now, expected) or not os.path.samestat(os.fstat(fd), expected):
            os.close(fd)
            times.close()
            return False
        if self._fd is not None:
            self._passed = os.fstat(self._fd)
            self.close()
        self._fd, self._times = fd, times
        self._offset, self._left = 0, _MOST_OF_FILE
        return True

    def _open_times(self, folder: Folder, number: int) -> LogTimes:
        """Open the times of the file with this number."""
        # While there is no live file, a rotation has renamed the log, and maybe not yet its times.
        if not self._is_timed or self._times_name is None or not folder.exists(self._name):
            return LogTimes(None)
        try:
            return LogTimes(folder.open(_numbered(self._times_name, number)))
        except OSError:
            return LogTimes(None)

    def _following(self, folder: Folder) -> tuple[int, os.stat_result] | None:
        """Return number and status of the file after the open one; of the oldest file if that one is gone."""
        # From the youngest on, so that a rotation meanwhile shows a file twice, and hides none.
        following = None
        open_now = os.fstat(self._fd) if self._fd is not None else None
        for number in range(_MOST_FILES):
            found = self._stat(folder, number)
            if not found and number:  # the live one may be away for a moment
                # While files are renamed there is a gap among them. What is behind it is found the next time.
                return None if self._stat(folder, number + 1) else following
            if found and open_now is not None and os.path.samestat(found, open_now):
                return following
            if found and self._passed is not None and _unchanged(found, self._passed):
                return following
            following = (number, found) if found else None
        return following

    def _stat(self, folder: Folder, number: int) -> os.stat_result | None:
        try:
            return folder.stat(self._numbered(number))
        except OSError:
            return None

    def _numbered(self, number: int) -> str:
        return _numbered(self._name, number)


def _numbered(name: str, number: int) -> str:
    """Return the name of a log's file: the live one for 0, then the rotated ones, newest first."""
    return f"{name}.{number}" if number else name


def _unchanged(found: os.stat_result, passed: os.stat_result) -> bool:
    """Return whether this is the same, unchanged file; its inode alone might have been reused."""
    return os.path.samestat(found, passed) and (found.st_size, found.st_mtime_ns) == (
        passed.st_size,
        passed.st_mtime_ns,
    )


def _next_data(fd: int, offset: int) -> tuple[int, int]:
    """Return the offsets at which the next data begins, from `offset` on, and at which it ends."""
    size = os.fstat(fd).st_size  # before: what is written meanwhile is no hole
    try:
        begin = os.lseek(fd, offset, os.SEEK_DATA)
        return begin, os.lseek(fd, begin, os.SEEK_HOLE)
    except OSError:  # nothing but a hole follows
        return max(offset, size), max(offset, size)
