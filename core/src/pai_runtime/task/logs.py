"""The logs of a task: the user's output byte for byte, and the runtime's own dated lines."""

import os
import select
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from pai_runtime.task.masking import Masker

LONGEST_LINE = 65536
"""Bytes of a line that are kept for its end to come; where lines are prefixed, a longer one is broken."""


class Sink(Protocol):
    """Where the bytes of one stream go."""

    def feed(self, data: bytes) -> None:
        """The next piece, of any length."""

    def flush(self) -> None:
        """The end of the stream, or of what was said in it so far."""


class LogFile:
    """A file that only grows. A full disk, or a folder that is gone, loses log lines and never the job."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self._lost(error)

    def write(self, data: bytes) -> None:
        """Append `data`."""
        if self._fd is None:
            return
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            os.close(self._fd)
            self._fd = None
            self._lost(error)

    def _lost(self, error: OSError) -> None:
        Console(2, b"").write(
            f"pai-runtime: no more is written to {self._path}: {error.strerror}. The job goes on.\n".encode()
        )


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


class UserLog:
    """One of the user's streams, masked, in the files and on the console it is passed on to."""

    def __init__(self, masker: Masker, files: Iterable[LogFile], console: Console) -> None:
        self._masker = masker
        self._files = tuple(files)
        self._console = console

    def feed(self, data: bytes) -> None:
        """The next piece of the stream."""
        self._write(self._masker.feed(data))

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
    """``runtime.log``: the runtime's own messages and the output of the callbacks, line by line.

    Each line is ``[Mon Feb  1 02:54:48 UTC 2021] [openpai-runtime] text``.
    """

    def __init__(self, masker: Masker, file: LogFile) -> None:
        self._masker = masker
        self._file = file
        self._lines = LinePrefix(b"")

    def say(self, text: str) -> None:
        """A message of the runtime's own, of one or more lines."""
        self.flush()
        self.feed(text.encode("utf-8", "backslashreplace") + b"\n")
        self.flush()

    def feed(self, data: bytes) -> None:
        """The next piece of a callback's output."""
        self._write(self._masker.feed(data))

    def flush(self) -> None:
        """The end of a callback: its last line may have no newline."""
        self._write(self._masker.flush())
        self._file.write(self._lines.flush())

    def _write(self, data: bytes) -> None:
        self._lines.prefix = time.strftime(
            "[%a %b %e %H:%M:%S UTC %Y] [openpai-runtime] ", time.gmtime()
        ).encode()
        self._file.write(self._lines.feed(data))


class Logs:
    """All logs of one task below `folder`; `prefix` stands before the lines that are passed on."""

    def __init__(self, folder: Path, secrets: Iterable[str], prefix: str) -> None:
        secrets = tuple(secrets)
        both = LogFile(folder / "user-all" / "current")
        self.runtime = RuntimeLog(Masker(secrets), LogFile(folder / "runtime.log"))
        self.stdout = UserLog(
            Masker(secrets),
            [LogFile(folder / "user-stdout" / "current"), both],
            Console(1, prefix.encode()),
        )
        self.stderr = UserLog(
            Masker(secrets),
            [LogFile(folder / "user-stderr" / "current"), both],
            Console(2, prefix.encode()),
        )
        self._masker = Masker(secrets)

    def mask(self, text: str) -> str:
        """`text` without secret values."""
        return self._masker.mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "backslashreplace")
