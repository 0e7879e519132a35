"""Parts of the logs of tasks, bounded, and as they may be shown."""

import contextlib
from dataclasses import dataclass
from typing import Final, Literal

from pai_runtime.command.runs import RunReader, RunTask
from pai_runtime.plugin import Output

_COLUMNS: Final = 2000
"""Columns of a line that are shown."""
_BESIDE: Final = 5
"""Lines that are shown before and after those that a rule has matched."""
_SEARCHED: Final = 1024 * 1024
"""Last bytes of a log that are searched for what a rule has matched."""

_Name = Literal["user", "runtime"]


@dataclass(frozen=True)
class Excerpt:
    """The last lines of a log; `left_out` bytes before them are not shown."""

    lines: tuple[str, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Line:
    """A line of a log, and whether a rule has matched it."""

    text: str
    is_match: bool


def excerpt(reader: RunReader, task: RunTask, name: _Name, most: int, output: Output) -> Excerpt:
    """Return the last `most` bytes of a task's log, by whole lines."""
    data, size = _tail(reader, task, name, most)
    if len(data) < size:
        data = data[data.find(b"\n") + 1 :]
    return Excerpt(tuple(_shown(data, output)), max(0, size - len(data)))


def in_context(reader: RunReader, task: RunTask, quote: str, output: Output) -> tuple[Line, ...]:
    """Return the last line of a task's logs that contains a text, with those beside it; empty without."""
    for name in ("user", "runtime"):
        lines = _shown(_tail(reader, task, name, _SEARCHED)[0], output) if quote else []
        for at in range(len(lines) - 1, -1, -1):
            if quote in lines[at]:
                first = max(0, at - _BESIDE)
                beside = lines[first : at + _BESIDE + 1]
                return tuple(Line(text, first + number == at) for number, text in enumerate(beside))
    return ()


def _tail(reader: RunReader, task: RunTask, name: _Name, most: int) -> tuple[bytes, int]:
    """Return the last bytes of a log, and the size of all of it; nothing if it cannot be read."""
    with contextlib.suppress(OSError):
        log = reader.log(task, name)
        try:
            data = log.tail(most)
            return data, max(log.size(), len(data))
        finally:
            log.close()
    return b"", 0


def _shown(data: bytes, output: Output) -> list[str]:
    lines = data.split(b"\n")
    if not lines[-1]:
        del lines[-1]
    return [output.log_line(line, _COLUMNS) for line in lines]
