"""A log on disk: bounded by rotation, and never the reason for a job to stop."""

from __future__ import annotations

import os

from pai_runtime.task.console import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_runtime.task.folder import Folder
    from pai_runtime.task.launch import Rotation


class LogFile:
    """A file that grows to its size, and then goes on as a new one under the same name.

    Earlier files are ``<name>.1`` (the youngest), ``<name>.2``, … A full disk, or a folder that is gone,
    loses log lines and never the job.
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
        """Append `data`."""
        try:
            self._ensure_open()
            while data:
                room = self._rotation.size - self._size
                if room <= 0:
                    self._rotate()
                    continue
                written = os.write(self._open_fd(), data[:room])
                self._size += written
                data = data[written:]
        except OSError as error:
            self._say_lost(error)
        else:
            self._troubled = False

    def _open_fd(self) -> int:
        if self._fd is None:
            self._fd = self._folder.append(self._name)
            self._size = os.fstat(self._fd).st_size
        return self._fd

    def _ensure_open(self) -> None:
        if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
            self._close()
            self._say(f"{self._path} was removed; starting a new file")
        self._open_fd()

    def _rotate(self) -> None:
        self._close()
        above, _, name = self._name.rpartition("/")
        with self._folder.folder(above) as folder:
            for number in range(self._rotation.count - 1, 0, -1):
                younger = f"{name}.{number - 1}" if number > 1 else name
                if folder.exists(younger):
                    folder.move(younger, folder, f"{name}.{number}")
            folder.unlink(name)
        self._open_fd()

    @property
    def _path(self) -> str:
        return str(self._folder.path / self._name)

    def _close(self) -> None:
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
