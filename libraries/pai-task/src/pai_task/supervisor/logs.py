"""The logs of a task: the user's output byte for byte, and the runtime's own lines with their dates."""

from __future__ import annotations

import os

from pai_task.console import Console, LinePrefix
from pai_task.folder import Folder
from pai_task.launch import Rotation
from pai_task.layout import LOGS, RUNTIME_LOG, USER_LOG, USER_LOG_TIMES
from pai_task.log_file import LogFile, TimedLogFile
from pai_task.masking import Masker, Masks
from pai_task.runtime_log import PRINTED, line_prefix
from pai_task.supervisor.user_log import LinesInTurn, UserLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from pai_task.launch import LaunchOptions
else:
    Protocol = object

TAIL_BYTES = 4096
_MOST_LAST = 300


class Sink(Protocol):
    """A receiver of the bytes of one stream."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream, of any length."""

    def idle(self) -> bool:
        """Handle a pause in the stream; return whether to be called again if it lasts."""

    def flush(self) -> None:
        """Handle the end of the stream, or of what was written to it so far."""


class Tail:
    """The last `TAIL_BYTES` bytes of a stream, for the exit record."""

    def __init__(self) -> None:
        self._data = b""

    def write(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._data = (self._data + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def text(self) -> str:
        """Return the last lines as text, without the beginning of one that was cut."""
        data = self._data.partition(b"\n")[2] if len(self._data) == TAIL_BYTES else self._data
        return (data or self._data).decode("utf-8", "replace")


class _RuntimeFile:
    """The file ``runtime.log``, with its last lines.

    `printing` is the source whose output its last lines are.
    """

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self.tail = Tail()
        self.printing: str | None = None

    def write(self, lines: bytes) -> None:
        self._file.write(lines)
        self.tail.write(lines)


class RuntimeLog:
    """A stream of lines into ``runtime.log``: messages of the runtime, or the output of a callback.

    `source` is what prints, such as ``'data' (org.example.data) in taskStarts``; the log says so wherever
    that changes.
    """

    def __init__(self, masks: Masks, file: _RuntimeFile, source: str | None = None) -> None:
        self._masks = masks
        self._masker = Masker(masks)
        self._file = file
        self._lines = LinePrefix(b"")
        self._last = b""
        self.source = source

    def say(self, text: str) -> None:
        """Write a message of the runtime, of one or more lines."""
        self.flush()
        source, self.source = self.source, None
        self.feed(text.encode("utf-8", "backslashreplace") + b"\n")
        self.flush()
        self.source = source

    def feed(self, data: bytes) -> None:
        """Take the next bytes of a callback's output."""
        self._write(self._masker.feed(data))

    def idle(self) -> bool:
        """Write out, after a pause, what needs no more input to be masked; return False."""
        self._write(self._masker.idle())
        return False

    def flush(self) -> None:
        """Write out everything at the end of a callback; its last line may have no newline."""
        self._write(self._masker.flush())
        self._put(self._lines.flush())

    def last_line(self) -> str:
        """Return the last line of the output that is not empty, without secrets; of a long one, the end."""
        self.idle()
        lines = [line for line in self._last.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""

    def _write(self, data: bytes) -> None:
        self._last = (self._last + data[-_MOST_LAST:])[-_MOST_LAST:]
        self._lines.prefix = line_prefix()
        self._put(self._lines.feed(data))

    def _put(self, lines: bytes) -> None:
        if lines and self.source not in (None, self._file.printing):
            self._file.printing = self.source
            text = self._masks.mask(f"{PRINTED}{self.source}:\n")
            lines = self._lines.prefix + text.encode("utf-8", "backslashreplace") + lines
        self._file.write(lines)


class Logs:
    """All logs of one task, below `folder`; raises OSError."""

    def __init__(self, folder: Folder, masks: Masks, options: LaunchOptions) -> None:
        self._tail = Tail()
        place = LOGS
        if options.logs is not None:
            above, place = os.path.split(options.logs)
            folder = Folder.at(above)

        def path(name: str) -> str:
            return f"{place}{name.removeprefix(LOGS)}"

        rotation = options.rotation
        both = LinesInTurn(TimedLogFile(folder, path(USER_LOG), path(USER_LOG_TIMES), rotation), self._tail)
        self.masks = masks
        by_number = Rotation(rotation.size, rotation.count)  # the platform looks for no earlier one
        self._runtime_file = _RuntimeFile(LogFile(folder, path(RUNTIME_LOG), by_number))
        self.runtime = self.runtime_stream()
        self.stdout, self.stderr = (
            UserLog(
                Masker(masks),
                LogFile(folder, f"{place}/user-{name}/current", rotation),
                Console(fd, options.prefix.encode()),
                both,
            )
            for name, fd in (("stdout", 1), ("stderr", 2))
        )

    def runtime_stream(self, source: str | None = None) -> RuntimeLog:
        """Return a new stream of lines into ``runtime.log``; `source` is what prints them."""
        return RuntimeLog(self.masks, self._runtime_file, source)

    def end(self) -> None:
        """Flush the user's streams at their end."""
        self.stdout.flush()
        self.stderr.flush()

    def tails(self) -> tuple[str, str]:
        """Return the last lines of the user's output and of ``runtime.log``."""
        return self._tail.text(), self._runtime_file.tail.text()
