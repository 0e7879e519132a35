"""Ignore patterns as in ``.gitignore``, matched in a time that is bounded by pattern and path.

A wildcard that has found the first place where what follows it fits never looks for another one: that place
is as good as any, as only a later wildcard could need more of the rest. Where the field's libraries try all
combinations, a pattern such as ``*a*a*a*b`` holds them up for ever.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from pai_task.record import record

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_ANY = "[^/]"
_NOTHING = "(?!)"
_DIRECTORIES = "**"


class WrongPattern(ValueError):
    """The exception for a pattern that git would not accept."""


@record(frozen=True)
class IgnorePattern:
    """One compiled line of an ignore file.

    It matches paths if it `has_path`, else names; only directories if it `is_for_folders`. One that
    `takes_back` re-includes what it matches.
    """

    regex: "re.Pattern[str]"
    has_path: bool
    is_for_folders: bool
    takes_back: bool


class Ignored:
    """A matcher for the lines of an ignore file.

    Raises `WrongPattern`; a `lenient` one leaves wrong lines out, as git does.
    """

    def __init__(self, lines: Iterable[str], *, lenient: bool = False) -> None:
        parsed = _parsed_or_none if lenient else _parsed
        self._patterns = [pattern for line in lines if (pattern := parsed(line))][::-1]

    def __call__(self, path: str, *, is_folder: bool) -> bool:
        """Return whether an entry is ignored, in a directory that is not."""
        return bool(self.decides(path, is_folder=is_folder))

    def decides(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether an entry is ignored, as the last matching line says; None if no line matches."""
        name = path.rpartition("/")[2]
        for each in self._patterns:
            if (is_folder or not each.is_for_folders) and each.regex.fullmatch(
                path if each.has_path else name
            ):
                return not each.takes_back
        return None


def _parsed_or_none(line: str) -> IgnorePattern | None:
    try:
        return _parsed(line)
    except WrongPattern:
        return None


def _parsed(line: str) -> IgnorePattern | None:
    text = _without_trailing_spaces(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    takes_back, text = text.startswith("!"), text.removeprefix("!")
    is_for_folders, text = text.endswith("/"), text.removesuffix("/")
    if not text:
        if is_for_folders:
            return None  # the directory itself, which is never asked for
        raise WrongPattern("nothing follows the !")
    has_path = "/" in text
    numbers = count()
    parts = [_component(part, numbers) for part in _components(text.removeprefix("/"))]
    if not has_path:
        (regex,) = (f"{_ANY}*" if part == _DIRECTORIES else part for part in parts)
    else:
        regex = _path(parts, numbers)
    return IgnorePattern(re.compile(regex), has_path, is_for_folders, takes_back)


def _without_trailing_spaces(line: str) -> str:
    """Strip trailing spaces, but not one that a backslash quotes."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return f"{text} " if backslashes % 2 and len(text) < len(line) else text


def _path(parts: Sequence[str], numbers: Iterator[int]) -> str:
    """Return the regular expression for a path, from those of its components."""
    fixed: list[list[str]] = [[]]
    for part in parts:
        if part != _DIRECTORIES:
            fixed[-1].append(f"{part}/")
        elif len(fixed) == 1 or fixed[-1]:
            fixed.append([])
    first, *others = ["".join(each) for each in fixed]
    if not others:
        return first.removesuffix("/")
    *between, last = others
    skipped = f"(?:{_ANY}+/)*"
    middle = "".join(_first_place(f"{skipped}?{each}", numbers) for each in between)
    # Whatever is in a directory is below it; the directory itself is not.
    return first + middle + (skipped + last.removesuffix("/") if last else f"{skipped}{_ANY}+")


def _components(text: str) -> Iterator[str]:
    """Yield the components between slashes; slashes in brackets or after a backslash do not separate."""
    start = at = 0
    while at < len(text):
        if text[at] == "/":
            yield text[start:at]
            start = at + 1
        at = at + 1 if text[at] in "*/" else _character(text, at)[1]
    yield text[start:]


def _component(text: str, numbers: Iterator[int]) -> str:
    """Return the regular expression for one component of a pattern."""
    if text.startswith(_DIRECTORIES) and not text.strip("*"):
        return _DIRECTORIES
    fixed = [""]
    at = 0
    while at < len(text):
        if text[at] == "*":
            if fixed[-1] or len(fixed) == 1:
                fixed.append("")
            at += 1
        else:
            one, at = _character(text, at)
            fixed[-1] += one
    first, *others = fixed
    if not others:
        return first
    *between, last = others
    return first + "".join(_first_place(f"{_ANY}*?{each}", numbers) for each in between) + f"{_ANY}*{last}"


def _first_place(expression: str, numbers: Iterator[int]) -> str:
    """Return the expression as an atomic group, without backtracking, which `re` lacks before Python 3.11."""
    name = f"n{next(numbers)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _character(text: str, at: int) -> tuple[str, int]:
    """Return the expression for the character or wildcard at an index, and the index behind it."""
    if text[at] == "?":
        return _ANY, at + 1
    if text[at] == "[":
        return _bracket(text, at + 1)
    if text[at] == "\\":
        at += 1
        if at == len(text):
            raise WrongPattern("nothing follows the last backslash")
    return re.escape(text[at]), at + 1


def _bracket(text: str, at: int) -> tuple[str, int]:
    """Return the expression for a bracket, and the index behind it; an unclosed one matches nothing."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    ranges, before = "", ""
    is_first = True
    while at < len(text) and (is_first or text[at] != "]"):
        is_first = False
        if before and text[at] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            last, at = _quoted(text, at + 1)
            ranges += f"{re.escape(before)}-{re.escape(last)}" if before <= last else ""
            before = ""
        elif text[at : at + 2] == "[:" and (end := text.find("]", at + 2)) > 0 and text[end - 1] == ":":
            if (name := text[at + 2 : end - 1]) not in _CLASSES:
                return _NOTHING, len(text)
            ranges += _CLASSES[name]
            at, before = end + 1, ""
        else:
            before, at = _quoted(text, at)
            ranges += re.escape(before)
    if at >= len(text):
        return _NOTHING, len(text)
    return f"(?!/)[{'^' if negated else ''}{ranges}]", at + 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return the character at an index, or the one that a backslash there quotes, and the index behind it."""
    at += text[at] == "\\"
    return text[at : at + 1], at + 1
