"""RE2: regular expressions in linear time, whatever the pattern and the text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import re2  # type: ignore[import-untyped]

_MEMORY = 256 * 1024 * 1024
"""Maximum memory in bytes for all patterns of one pass; RE2 takes what it needs."""

_AT_ONCE, _OF_MANY, _MANY = 32, 12, 128
"""Patterns per automaton, and how many if there are more than the last number of patterns: a larger one needs
fewer passes, but a hostile text, with words from many patterns, leads it to far more states.
"""

_SHORT = 64 * 1024
"""In a text of fewer bytes, patterns are searched for one by one: faster than making an automaton."""

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


class Expressions:
    """Valid patterns that are searched for together, ready for any number of texts.

    Each match of a pattern has one of its `literals`, if it is given any: a pattern with none in the text
    is not searched for. With the small groups, this keeps a log of words from many patterns to seconds. One
    automaton for all patterns would go on making new states, which takes minutes.
    """

    def __init__(
        self, patterns: Iterable[str], literals: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        self._patterns = tuple(dict.fromkeys(patterns))
        self._by_literal: dict[str, list[int]] = {}
        self._always = []
        for number, pattern in enumerate(self._patterns):
            own = literals.get(pattern, ())
            for literal in own:
                self._by_literal.setdefault(literal, []).append(number)
            if not own:
                self._always.append(number)
        self._literals = tuple(self._by_literal)

    def found(self, text: bytes) -> frozenset[str]:
        """Return the patterns that match anywhere in a text."""
        there = _found(self._literals, text, is_literal=True)
        numbers = {*self._always, *(number for each in there for number in self._by_literal[each])}
        possible = [self._patterns[number] for number in sorted(numbers)]
        if len(text) < _SHORT:
            return frozenset(each for each in possible if span(each, text))
        size = _AT_ONCE if len(possible) <= _MANY else _OF_MANY
        groups = (tuple(possible[at : at + size]) for at in range(0, len(possible), size))
        return frozenset(each for group in groups for each in _found(group, text))


def _found(patterns: tuple[str, ...], text: bytes, *, is_literal: bool = False) -> Iterator[str]:
    """Yield the patterns that match anywhere in a text, in one pass over it if memory allows that.

    They must be different from one another.
    """
    if not patterns:
        return
    try:
        matched = _automaton(patterns, _MEMORY, is_literal).Match(text)
    except re2.error:
        matched = None
    if matched is not None:
        yield from (patterns[number] for number in matched if number < len(patterns))
    elif is_literal:
        yield from (each for each in patterns if _encoded(each) in text)
    else:
        yield from (each for each in patterns if span(each, text))


@lru_cache(maxsize=4)
def _automaton(patterns: tuple[str, ...], memory: int, is_literal: bool) -> Any:  # noqa: FBT001 - for the cache
    """Compile patterns to one automaton, cached, since this takes longer than a search.

    Raises `re2.error`.
    """
    options = _options(memory)
    options.literal = is_literal
    every = re2.Set.SearchSet(options)
    for pattern in map(_encoded, patterns):
        every.Add(pattern)
    every.Add(b"" if is_literal else _ALWAYS)
    every.Compile()
    return every


def span(pattern: str, text: bytes) -> tuple[int, int] | None:
    """Return start and end of the first match of a valid pattern, or of its group `said`; None if none."""
    match = _compiled(pattern).search(text)
    return match.span(match.re.groupindex.get(b"said", 0)) if match else None


def first(pattern: str, text: bytes) -> int | None:
    """Return the start of the first match of a valid pattern; None if there is none."""
    return next(starts(pattern, text), None)


def starts(pattern: str, text: bytes) -> Iterator[int]:
    """Yield the start of each match of a valid pattern."""
    return (match.start() for match in _compiled(pattern).finditer(text))


def replaced(pattern: str, by: Callable[[Any], bytes], text: bytes) -> bytes:
    """Return a text with each match of a valid pattern replaced by what a function returns for it."""
    result: bytes = _compiled(pattern).sub(by, text)
    return result


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    return re2.compile(_encoded(pattern), _options())


def _encoded(pattern: str) -> bytes:
    return pattern.encode("utf-8", "surrogatepass")


def _options(memory: int = _MEMORY) -> Any:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    return options
