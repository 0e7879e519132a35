"""The logs of a task: the user's output byte for byte, and the runtime's own dated lines."""

from __future__ import annotations

import os

from pai_runtime.task.console import Console, LinePrefix
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import LOGS, RUNTIME_LOG, USER_LOG
from pai_runtime.task.masking import Masker, Masks
from pai_runtime.task.runtime_log import line_prefix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from pai_runtime.task.launch import Rotation
else:
    Protocol = object

TAIL_BYTES = 4096


class Sink(Protocol):
    """Where the bytes of one stream go."""

    def feed(self, data: bytes) -> None:
        """The next piece, of any length."""

    def idle(self) -> None:
        """Nothing has come for a while."""

    def flush(self) -> None:
        """The end of the stream, or of what was said in it so far."""


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


class Tail:
    """The last bytes of a stream, for the exit record."""

    def __init__(self) -> None:
        self._data = b""

    def write(self, data: bytes) -> None:
        """The next piece."""
        self._data = (self._data + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def text(self) -> str:
        """The last lines, the first of them whole."""
        data = self._data.partition(b"\n")[2] if len(self._data) == TAIL_BYTES else self._data
        return (data or self._data).decode("utf-8", "replace")


class UserLog:
    """One of the user's streams, masked, in the files and on the console it is passed on to."""

    def __init__(self, masker: Masker, files: Iterable[LogFile | Tail], console: Console) -> None:
        self._masker = masker
        self._files = tuple(files)
        self._console = console

    def feed(self, data: bytes) -> None:
        """The next piece of the stream."""
        self._write(self._masker.feed(data))

    def idle(self) -> None:
        """Nothing has come for a while: give out what need not wait."""
        self._write(self._masker.idle())

    def flush(self) -> None:
        """The end of the stream."""
        self._write(self._masker.flush())
        self._console.end()

    def _write(self, data: bytes) -> None:
        if data:
            for file in self._files:
                file.write(data)
            self._console.write(data)


class RuntimeLog:
    """``runtime.log``: the runtime's own messages and the output of the callbacks, line by line."""

    def __init__(self, masker: Masker, file: LogFile, tail: Tail) -> None:
        self._masker = masker
        self._file = file
        self._tail = tail
        self._lines = LinePrefix(b"")

    def say(self, text: str) -> None:
        """A message of the runtime's own, of one or more lines."""
        self.flush()
        self.feed(text.encode("utf-8", "backslashreplace") + b"\n")
        self.flush()

    def feed(self, data: bytes) -> None:
        """The next piece of a callback's output."""
        self._write(self._masker.feed(data))

    def idle(self) -> None:
        """Nothing has come for a while: give out what need not wait."""
        self._write(self._masker.idle())

    def flush(self) -> None:
        """The end of a callback: its last line may have no newline."""
        self._write(self._masker.flush())
        self._put(self._lines.flush())

    def _write(self, data: bytes) -> None:
        self._lines.prefix = line_prefix()
        self._put(self._lines.feed(data))

    def _put(self, lines: bytes) -> None:
        self._file.write(lines)
        self._tail.write(lines)


class Logs:
    """All logs of one task, whose folder is `folder`; `prefix` stands before the lines that are passed on."""

    def __init__(self, folder: Folder, masks: Masks, prefix: str, rotation: Rotation) -> None:
        both = LogFile(folder, USER_LOG, rotation)
        self._tail = Tail()
        self.masks = masks
        self._runtime_file = LogFile(folder, RUNTIME_LOG, rotation)
        self._runtime_tail = Tail()
        self.runtime = self.runtime_stream()
        self.stdout, self.stderr = (
            UserLog(
                Masker(masks),
                [LogFile(folder, f"{LOGS}/user-{name}/current", rotation), both, self._tail],
                Console(fd, prefix.encode()),
            )
            for name, fd in (("stdout", 1), ("stderr", 2))
        )

    def runtime_stream(self) -> RuntimeLog:
        """One more stream of lines into ``runtime.log``."""
        return RuntimeLog(Masker(self.masks), self._runtime_file, self._runtime_tail)

    def tails(self) -> tuple[str, str]:
        """The last lines of the user's output and of ``runtime.log``."""
        return self._tail.text(), self._runtime_tail.text()
