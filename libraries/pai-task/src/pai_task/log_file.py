"""Log files on disk: bounded by rotation, and never a reason for a job to stop.

The times of a log are in a file beside it, which is rotated with it: records of 16 bytes, each with an offset
in the log and the Unix time in microseconds at which what begins there was written; both are little-endian
and take 8 bytes. Rotated files may be named as multilog names them, ``@<tai64n>.s``: OpenPAI's portal looks
for these, and shows one as the earlier part of a log.
"""

from __future__ import annotations

import os
import time

from pai_task.console import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pai_task.folder import Folder
    from pai_task.launch import Rotation

RECORD_BYTES = 16

_LATEST = 253402300800
"""The first moment whose year has five digits."""

_DIGITS = 24
_EPOCH = (1 << 62) + 10
"""The TAI64 label of 1970, as multilog counts."""
_HEXADECIMAL = frozenset("0123456789abcdef")


class LogFile:
    """A log file that is rotated once it reaches its size.

    Rotated files are ``<name>.1`` (the newest), ``<name>.2``, …, or named as multilog does. A full disk or a
    missing folder loses log lines, and never fails the job.
    """

    def __init__(self, folder: Folder, name: str, rotation: Rotation) -> None:
        self._folder = folder
        self._name = name
        self._rotation = rotation
        self._fd: int | None = None
        self._size = 0
        self._troubled = False
        self.write(b"")

    def write(self, data: bytes) -> None:
        """Append `data`; on an error it is dropped."""
        try:
            self._ensure_open()
            while data:
                room = self._rotation.size - self._size
                if room <= 0 or self._is_full():
                    self._rotate()
                    continue
                written = self._write_some(data[:room])
                self._size += written
                data = data[written:]
        except OSError as error:
            self._say_lost(error)
        else:
            self._troubled = False

    def _is_full(self) -> bool:
        """Return whether the file must be rotated before it has reached its size."""
        return False

    def _write_some(self, data: bytes) -> int:
        return os.write(self._open_fd(), data)

    def _open_fd(self) -> int:
        if self._fd is None:
            self._fd = self._folder.append(self._name)
            self._size = os.fstat(self._fd).st_size
        return self._fd

    def _ensure_open(self) -> None:
        if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
            self.close()
            self._say(f"{self._path} was removed; starting a new file")
        self._open_fd()

    def _rotate(self) -> None:
        self.close()
        self._set_aside()
        self._open_fd()

    def _set_aside(self) -> None:
        """Give the full file the name of a rotated one, and remove those beyond the number to keep."""
        if not self._rotation.tai64n:
            self._make_room(self._name)
            return
        above, _, name = self._name.rpartition("/")
        with self._folder.folder(above) as folder:
            if folder.exists(name):
                folder.move(name, folder, next_name(folder.names()))
            for each in earlier_names(folder.names())[self._rotation.count - 1 :]:
                folder.unlink(each)

    def _make_room(self, path: str) -> None:
        """Shift a file and the rotated ones by one number."""
        above, _, name = path.rpartition("/")
        with self._folder.folder(above) as folder:
            for number in range(self._rotation.count - 1, 0, -1):
                younger = f"{name}.{number - 1}" if number > 1 else name
                if folder.exists(younger):
                    folder.move(younger, folder, f"{name}.{number}")
            folder.unlink(name)

    @property
    def _path(self) -> str:
        return str(self._folder.path / self._name)

    def close(self) -> None:
        """Close the file; the next `write` opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _say_lost(self, error: OSError) -> None:
        if not self._troubled:
            self._say(
                f"cannot write {self._path}: {error.strerror}; its lines are lost, and the job continues"
            )
        self._troubled = True

    def _say(self, text: str) -> None:
        Console(2, b"").write(f"pai-runtime: {text}.\n".encode())


_RESOLUTION = 0.01
"""Resolution in seconds of the recorded times: a task may write a million times a second."""


class TimedLogFile(LogFile):
    """A log file with its times in a second file, which is rotated with it and no larger."""

    def __init__(self, folder: Folder, name: str, times: str, rotation: Rotation) -> None:
        self._times = times
        self._times_fd: int | None = None
        self._times_size = 0
        self._noted = 0.0
        super().__init__(folder, name, rotation)

    def _is_full(self) -> bool:
        return self._times_size >= self._rotation.size

    def _write_some(self, data: bytes) -> int:
        fd = self._open_fd()
        now = time.time()
        if not 0 <= now - self._noted < _RESOLUTION:
            self._note(now)
        return os.write(fd, data)

    def _note(self, now: float) -> None:
        try:
            if self._times_fd is not None:
                self._times_size += os.write(self._times_fd, time_record(self._size, now))
                self._noted = now
        except OSError:
            self._close_times()  # the log goes on without
        if self._times_size % RECORD_BYTES:
            self._close_times()  # the disk is full

    def _open_fd(self) -> int:
        if self._fd is not None:
            return self._fd
        try:
            # First: who finds the log, as `LogFollower` does, finds its times too.
            self._times_fd = self._folder.append(self._times)
            self._times_size = os.fstat(self._times_fd).st_size
        except OSError:
            self._close_times()
        fd = super()._open_fd()
        if self._times_fd is not None:
            # None is left of a log that was removed, nor half of a record.
            self._times_size -= self._times_size % RECORD_BYTES if self._size else self._times_size
            os.ftruncate(self._times_fd, self._times_size)
        self._noted = 0.0
        return fd

    def _rotate(self) -> None:
        self.close()
        self._set_aside()
        try:
            self._make_room(self._times)  # before the log is there again, as `LogFollower` expects
        except OSError:
            pass  # the log goes on
        self._open_fd()

    def close(self) -> None:
        """Close the file, and that of its times."""
        super().close()
        self._close_times()

    def _close_times(self) -> None:
        if self._times_fd is not None:
            os.close(self._times_fd)
            self._times_fd = None
        self._times_size = 0


def earlier_names(names: Iterable[str]) -> list[str]:
    """Return the names of rotated files among the names in a directory, newest first."""
    return sorted(filter(_is_earlier, names), reverse=True)


def next_name(names: Iterable[str]) -> str:
    """Return the name for the file that is full now, later than those of a directory."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    label = (_EPOCH + seconds) << 32 | nanoseconds
    before = earlier_names(names)
    if before:  # the clock may have been set back
        label = max(label, int(before[0][1 : 1 + _DIGITS], 16) + 1)
    return f"@{label:0{_DIGITS}x}.s"


def _is_earlier(name: str) -> bool:
    label = name[1:-2]
    return name == f"@{label}.s" and len(label) == _DIGITS and _HEXADECIMAL.issuperset(label)


def time_record(offset: int, moment: float) -> bytes:
    """Return the record that what is written at `moment` (seconds since 1970) begins at `offset`."""
    return offset.to_bytes(8, "little") + int(moment * 1e6).to_bytes(8, "little")


def read_time_record(data: bytes) -> tuple[int, float | None]:
    """Return the offset and the time in a record; None for an invalid time."""
    moment = int.from_bytes(data[8:], "little") / 1e6
    return int.from_bytes(data[:8], "little"), moment if moment < _LATEST else None
