"""Reading a log while it is written and rotated by ``supervisor.log_file.LogFile``."""

import contextlib
import os
from pathlib import Path

from pai_runtime.task.folder import Folder


class LogFollower:
    """The new part of a log since the last call, starting with the oldest file that is kept.

    It keeps the file that it has come to open, and reads that to its end also when it has been renamed or
    removed. What is rotated away before it comes to it is lost. A file that has become shorter is read anew.
    """

    def __init__(self, run: Path, name: str) -> None:
        self.name = str(run / name)
        self._run = run
        self._above, _, self._name = name.rpartition("/")
        self._fd: int | None = None
        self._offset = 0
        self._passed: os.stat_result | None = None

    def read(self, most: int) -> bytes:
        """The next bytes, at most so many; none if nothing has come, or there is no log yet.

        Raises `OSError` if there is something that cannot be read.
        """
        data = b""
        while len(data) < most:
            piece = b"" if self._fd is None else os.pread(self._fd, most - len(data), self._offset)
            self._offset += len(piece)
            data += piece
            if not piece and not self._go_on():
                break
        return data

    def size(self) -> int:
        """How many bytes are kept of it now."""
        sizes = []
        with contextlib.suppress(OSError), self._folder() as folder:
            for file in folder.names():
                with contextlib.suppress(OSError):  # it has been rotated away
                    if file.startswith(self._name):
                        sizes.append(folder.stat(file).st_size)
        return sum(sizes)

    def tail(self, most: int) -> bytes:
        """The last bytes of its live file; none if there is none."""
        try:
            with self._folder() as folder, os.fdopen(folder.open(self._name), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
                return file.read(most)
        except OSError:
            return b""

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _go_on(self) -> bool:
        """At the end of a file: whether there is more to read, in it or in the one that follows."""
        try:
            folder = self._folder()
        except OSError:
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
            if here.st_size != self._offset:
                self._offset = self._offset if here.st_size > self._offset else 0
                return here.st_size > 0
        return following is not None and self._open(folder, *following)

    def _open(self, folder: Folder, name: str, expected: os.stat_result) -> bool:
        """Open the next file; not if it has been renamed since it was found, for then it is found again."""
        try:
            fd = folder.open(name)
        except FileNotFoundError:
            return False
        if not os.path.samestat(os.fstat(fd), expected):
            os.close(fd)
            return False
        if self._fd is not None:
            self._passed = os.fstat(self._fd)
            self.close()
        self._fd, self._offset = fd, 0
        return True

    def _following(self, folder: Folder) -> tuple[str, os.stat_result] | None:
        """The file after the one that is open; if that one is not kept any more, the oldest one."""
        # From the youngest on, so that a rotation meanwhile shows a file twice, and hides none.
        following = None
        open_now = os.fstat(self._fd) if self._fd is not None else None
        number = 0
        while (found := self._stat(folder, number)) or number == 0:  # the live one may be away for a moment
            if found and open_now is not None and os.path.samestat(found, open_now):
                return following
            if found and self._passed is not None and _unchanged(found, self._passed):
                return following
            following = (self._numbered(number), found) if found else None
            number += 1
        # While files are renamed there is a gap among them. What is behind it is found the next time.
        return None if self._stat(folder, number + 1) else following

    def _stat(self, folder: Folder, number: int) -> os.stat_result | None:
        try:
            return folder.stat(self._numbered(number))
        except OSError:
            return None

    def _numbered(self, number: int) -> str:
        """The live file, and those before it, the youngest first."""
        return f"{self._name}.{number}" if number else self._name


def _unchanged(found: os.stat_result, passed: os.stat_result) -> bool:
    """Whether it is that very file; the inode alone may have been given to a new one by now."""
    return os.path.samestat(found, passed) and (found.st_size, found.st_mtime_ns) == (
        passed.st_size,
        passed.st_mtime_ns,
    )
