"""Output of programs, made safe to show on one line of a terminal."""

import re
from collections.abc import Iterable, Sequence

from pai_document.printable import printable

MOST_NAMED = 10
"""Names that a text lists, before it says how many more there are."""

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, but also moves of the cursor
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|[ -/]*[0-Z\\`-~])?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_TAB = 8


def shown_line(line: bytes, *, colours: bool = False) -> str:
    """Return a line as a terminal would display it, without escape sequences; colours only with `colours`.

    Of a line that was overwritten again and again, as by a progress bar, the last version is returned.
    """
    text = line.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    pieces = [_printable(text[start:end]) for start, end in _between(text)]
    if not colours:
        return "".join(pieces)
    kept = [each if _COLOUR.fullmatch(each) else "" for each in _SEQUENCE.findall(text)]
    result = pieces[0] + "".join(colour + piece for colour, piece in zip(kept, pieces[1:], strict=True))
    return result + "\x1b[m" if any(kept) else result


def columns_of(text: str) -> int:
    """Return the number of terminal columns that a printable text takes."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415 - slow, and most text is ASCII

    return wcswidth(text)


def cut(text: str, columns: int) -> str:
    """Cut a printable text to a number of terminal columns."""
    return _between_columns(text, 0, columns)


def shortened(text: str, columns: int) -> str:
    """Cut a printable text to a number of terminal columns, at least one; its end says if it was longer."""
    return text if columns_of(text) <= columns else f"{cut(text, columns - 1)}…"


def ending(text: str, columns: int) -> str:
    """Cut a printable text to a number of terminal columns, at least one; its start says if it was longer."""
    width = columns_of(text)
    return text if width <= columns else f"…{_between_columns(text, width - columns + 1, width)}"


def _between_columns(text: str, start: int, end: int) -> str:
    if text.isascii():
        return text[start:end]
    from wcwidth import clip  # noqa: PLC0415 - slow, and most text is ASCII

    return clip(text, start, end, fillchar="")


def message(lines: Iterable[str], columns: int | None = None) -> list[str]:
    """Return lines, at least one, as one message of the runtime, wrapped at `columns` if given."""
    first, *rest = map(printable, lines)
    whole = [f"pai-runtime: {first}", *rest]
    return whole if columns is None else [part for line in whole for part in wrapped(line, columns)]


def wrapped(line: str, columns: int) -> list[str]:
    """Wrap a printable line at spaces; what goes on is indented further.

    A command line at its end stays whole, so that it can be copied from the terminal.
    """
    text, command, arguments = line.partition("pai-runtime ")
    indent = text[: len(text) - len(text.lstrip())]
    words = [*text.split(), *([command + arguments] if command else [])]
    parts = [indent + words[0]] if words else [line]
    for word in words[1:]:
        if columns_of(f"{parts[-1]} {word}") <= columns:
            parts[-1] += f" {word}"
        else:
            parts.append(f"{indent}    {word}")
    return parts


def _between(text: str) -> list[tuple[int, int]]:
    """Return the spans of text between escape sequences, as start and end indexes."""
    spans = [match.span() for match in _SEQUENCE.finditer(text)]
    return list(
        zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
    )


def _printable(text: str) -> str:
    return "".join(each for each in text.expandtabs(_TAB) if each.isprintable())


def some(texts: Sequence[str], most: int = MOST_NAMED, *, separator: str = ", ") -> str:
    """Join at most `most` texts, and say how many more there are."""
    more = len(texts) - most
    return separator.join(texts[:most]) + (f" and {more} more" if more > 0 else "")
