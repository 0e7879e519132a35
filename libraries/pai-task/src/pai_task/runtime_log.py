"""The format of lines in ``runtime.log``: ``[Mon Feb  1 02:54:48 UTC 2021] [openpai-runtime] text``."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXPLAINED = "[ERROR] exit code "
"""The beginning of the line after which the log says why the task failed."""

PRINTED = "[INFO] output of "
"""The beginning of a line that says what printed the lines after it."""

NOTE = "[NOTE] "
"""The beginning of a line that a step or service prints for people to see at once, and in the exit record."""

AT = "[AT] "
"""The beginning of a line by which a service says where the command is; empty once that is no matter."""

_MARK = "] [openpai-runtime] "


def line_prefix() -> bytes:
    """Return the prefix of a line that is written now."""
    return time.strftime(f"[%a %b %e %H:%M:%S UTC %Y{_MARK}", time.gmtime()).encode()


def date_of(line: bytes) -> str | None:
    """Return the date of a line, as it is written there; None if it has none."""
    date, mark, _ = line.partition(_MARK.encode())
    return date[1:].decode("ascii", "replace") if mark and date.startswith(b"[") else None


def before_explanation(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts before the explanation of the failure; later ones belong to it or to callbacks."""
    explained = (number for number, text in enumerate(texts) if text.startswith(EXPLAINED))
    return texts[: next(explained, len(texts))]


def text_of(line: str) -> str:
    """Return the text of a line without its prefix, if it has one."""
    date, mark, text = line.partition(_MARK)
    return text if mark and date.startswith("[") and "]" not in date else line
