"""RE2: regular expressions in linear time, whatever the pattern and the text."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

_MEMORY = 256 * 1024 * 1024
"""Maximum memory in bytes for all patterns of one pass; RE2 takes what it needs."""

_ALWAYS = rb"\z"
"""A pattern that any text matches: RE2's binding does not tell a pass that ran out of memory from one that
found nothing. At the end of the text, because that costs nothing on the way there."""


def fault(pattern: str) -> str | None:
    """Return what is wrong with a pattern, in RE2's words; None if it is valid."""
    try:
        re2.compile(_encoded(pattern), _options())
    except re2.error as error:
        words = error.args[0]
        return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
    return None


def found(patterns: Sequence[str], text: bytes) -> frozenset[str]:
    """Return the patterns, which must be valid, that match anywhere in a text, in one pass over it."""
    unique = tuple(dict.fromkeys(patterns))
    if not unique:
        return frozenset()
    try:
        matched = _automaton(unique, _MEMORY).Match(text)
    except re2.error:
        matched = None
    if matched is None:  # too much for one automaton
        return frozenset(pattern for pattern in unique if span(pattern, text))
    return frozenset(unique[number] for number in matched if number < len(unique))


@lru_cache(maxsize=4)
def _automaton(patterns: tuple[str, ...], memory: int) -> Any:
    """Compile patterns to one automaton, cached, since this takes longer than a search.

    Raises `re2.error`.
    """
    every = re2.Set.SearchSet(_options(memory))
    for pattern in [*map(_encoded, patterns), _ALWAYS]:
        every.Add(pattern)
    every.Compile()
    return every


def span(pattern: str, text: bytes) -> tuple[int, int] | None:
    """Return start and end of the first match of a valid pattern, or of its group `said`; None if none."""
    match = re2.compile(_encoded(pattern), _options()).search(text)
    return match.span(match.re.groupindex.get(b"said", 0)) if match else None


def first(pattern: str, text: bytes) -> int | None:
    """Return the start of the first match of a valid pattern; None if there is none."""
    return next(starts(pattern, text), None)


def starts(pattern: str, text: bytes) -> Iterator[int]:
    """Yield the start of each match of a valid pattern."""
    return (match.start() for match in re2.compile(_encoded(pattern), _options()).finditer(text))


def _encoded(pattern: str) -> bytes:
    return pattern.encode("utf-8", "surrogatepass")


def _options(memory: int = _MEMORY) -> Any:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    return options
