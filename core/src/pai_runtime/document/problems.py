"""Problems: what is wrong with something that a person wrote, said so that the person can mend it."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

from pai_runtime.document.printable import printable

MOST_SHOWN = 100
"""Problems that are shown: nobody reads more of them, and a file may have a hundred thousand."""
MOST_LOOKED_FOR = 1000
"""Faults of one file, or of what a use is given, that are looked for: each takes time."""

_LONGEST = 1000
_MOST_COMPARED = 2000
_LONGEST_COMPARED = 100
_MOST_SUGGESTED = 100
_NEAR = 0.7


@dataclass(frozen=True)
class Position:
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, in which field, what was found, what was expected, what to do.

    As text it is one line that a terminal shows as it is, whatever the file holds.
    """

    message: str
    position: Position | None = None
    field: str = ""
    found: str | None = None
    expected: str | None = None
    suggestion: str | None = None
    severity: Literal["error", "warning"] = "error"

    def __post_init__(self) -> None:
        # A file may hold names of any length, and as many problems that name them.
        for part in ("message", "field", "found", "expected", "suggestion"):
            text = getattr(self, part)
            if text is not None and len(text) > _LONGEST:
                object.__setattr__(self, part, text[:_LONGEST] + "…")

    def __str__(self) -> str:
        parts = [str(self.position)] if self.position else []
        parts.append(self.severity)
        if self.field:
            parts.append(self.field)
        text = ": ".join([*parts, self.message])
        if self.found is not None:
            text += f"; found {self.found}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.suggestion is not None:
            text += f". Did you mean {self.suggestion}?"
        return printable(text)

    def to_json(self) -> dict[str, Any]:
        """The problem as data, without what is not known."""
        document = {key: value for key, value in asdict(self).items() if value not in (None, "")}
        if self.position:
            del document["position"]
            document |= asdict(self.position)
        return document


class InvalidInput(Exception):
    """Something that a person wrote cannot be used, for all of these reasons."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem_lines(self.problems)))


def problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    """Those that are shown, and how many others there are."""
    yield from map(str, problems[:MOST_SHOWN])
    if len(problems) > MOST_SHOWN:
        yield f"and {len(problems) - MOST_SHOWN} more"


def bounded(problems: Iterable[Problem], position: Position) -> list[Problem]:
    """Each problem once, up to the bound; `position` is that of what has them."""
    found: dict[Problem, None] = {}
    for problem in problems:
        if len(found) == MOST_LOOKED_FOR and problem not in found:
            return [Problem(f"has more than {MOST_LOOKED_FOR} faults; not all are listed", position), *found]
        found[problem] = None
    return list(found)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each problem once, by its place in the file."""
    unique = dict.fromkeys(problems)
    return tuple(
        sorted(
            unique,
            key=lambda problem: (
                (problem.position.line, problem.position.column) if problem.position else (0, 0)
            ),
        )
    )


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Those that are not warnings."""
    return tuple(problem for problem in problems if problem.severity == "error")


class Suggestions:
    """Known words for unknown ones; for the first hundred, since a file may hold as many thousand."""

    def __init__(self) -> None:
        self._left = _MOST_SUGGESTED

    def near_miss(self, word: str, known: Iterable[str]) -> str | None:
        """The known word that `word` was probably meant to be."""
        self._left -= 1
        return near_miss(word, known) if self._left >= 0 else None


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be, whatever the case of its letters."""
    if len(word) > _LONGEST_COMPARED:
        return None
    by_lower = {
        candidate.lower(): candidate
        for candidate in islice(known, _MOST_COMPARED)
        if 2 * min(len(word), len(candidate)) >= _NEAR * (len(word) + len(candidate))
    }
    matches: Sequence[str] = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=_NEAR)
    return by_lower[matches[0]] if matches else None


def field_name(path: Iterable[str | int]) -> str:
    """A path in a document as people write it: ``taskRoles.worker.commands[0]``."""
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name
