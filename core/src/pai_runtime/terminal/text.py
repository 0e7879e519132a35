"""Output of programs, made safe to show on one line of a terminal."""

import re
import unicodedata

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, but also moves of the cursor
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|[ -/]*[0-Z\\`-~])?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_TAB = 8

_JOINED = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb]")
"""Vowels and finals of Korean syllables, which take no column: they join the character before them."""
_WIDE = re.compile("[\u2630-\u2637\u268a-\u268f\u4dc0-\u4dff\U0001d300-\U0001d376]")
"""Characters that are wide since Unicode 16, which is newer than the tables of most Pythons."""


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
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut(text: str, columns: int) -> str:
    """Cut a printable text to a number of terminal columns."""
    if text.isascii():
        return text[:columns]
    for number, character in enumerate(text):
        columns -= _columns(character)
        if columns < 0:
            return text[:number]
    return text


def _between(text: str) -> list[tuple[int, int]]:
    """Return the spans of text between escape sequences, as start and end indexes."""
    spans = [match.span() for match in _SEQUENCE.finditer(text)]
    return list(
        zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
    )


def _printable(text: str) -> str:
    return "".join(each for each in text.expandtabs(_TAB) if each.isprintable())


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Me", "Mn") or _JOINED.match(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" or _WIDE.match(character) else 1
