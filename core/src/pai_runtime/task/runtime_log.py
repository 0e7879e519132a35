"""The lines of ``runtime.log``: ``[Mon Feb  1 02:54:48 UTC 2021] [openpai-runtime] text``."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXPLAINED = "[ERROR] exit code "
"""Begins the text of the line from which on the log says why the task failed."""

PRINTED = "[INFO] output of "
"""Begins the text of the line that says what has printed the lines after it."""

_MARK = "] [openpai-runtime] "


def line_prefix() -> bytes:
    """What stands before the text of a line that is written now."""
    return time.strftime(f"[%a %b %e %H:%M:%S UTC %Y{_MARK}", time.gmtime()).encode()


def date_of(line: bytes) -> str | None:
    """The date of a line, as it is written there; None if it has none."""
    date, mark, _ = line.partition(_MARK.encode())
    return date[1:].decode("ascii", "replace") if mark and date.startswith(b"[") else None


def before_explanation(texts: Sequence[str]) -> Sequence[str]:
    """Those before the log says why the task failed: what follows is of that, or of callbacks."""
    explained = (number for number, text in enumerate(texts) if text.startswith(EXPLAINED))
    return texts[: next(explained, len(texts))]


def text_of(line: str) -> str:
    """A line without its prefix; all of what has none."""
    date, mark, text = line.partition(_MARK)
    return text if mark and date.startswith("[") and "]" not in date else line
