"""Problems in files that users write: what is wrong, where, and what was expected."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal

from pai_document.printable import printable
from pai_task.record import field as record_field
from pai_task.record import record, replace

MOST_SHOWN = 100
"""Problems that are shown: nobody reads more of them, and a file may have a hundred thousand."""
MOST_LOOKED_FOR = 1000
"""Faults of one file, or of what a use is given, that are looked for: each takes time."""

_LONGEST = 1000
_MOST_COMPARED = 2000
_MOST_LISTED = 10
_LONGEST_LISTED = 50
_LONGEST_COMPARED = 100
_MOST_SUGGESTED = 100
_NEAR = 0.7
_NEAR_SHORT = 0.66
"""Minimum similarity for words of three letters, such as ``git``, of which two have to be right."""


DocumentPath = tuple[str | int, ...]
"""Keys and indexes that lead from a value to one below it."""

Severity = Literal["error", "warning", "note"]
"""A note tells what was decided, to no harm: it is never made an error."""


@record(frozen=True)
class Position:
    """A position in a file; line and column count from 1, and line 0 means the file as a whole.

    `required_by` is where the definition file is required; None for a file that people named themselves, such
    as the job file. It takes no part in comparison: a problem that is reached in several ways is reported
    once, with the first of them.
    """

    file: str
    line: int = 0
    column: int = 0
    required_by: "Position | None" = record_field(default_factory=lambda: None, compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def way(self) -> tuple[str, ...]:
        """The places through which a job requires this file, nearest first; empty for the job file itself."""
        places = []
        position = self.required_by
        while position is not None:
            places.append(str(position))
            position = position.required_by
        return tuple(places)


@record(frozen=True)
class Location:
    """The position of a value and of its key, with the name of its field.

    `written` is its source text, if that is known and on one line.
    """

    position: Position
    key_position: Position
    field: str
    written: str = ""

    def problem(
        self,
        code: str,
        message: str,
        *,
        found: str | None = None,
        expected: str | None = None,
        suggestion: str | None = None,
        severity: Severity = "error",
    ) -> "Problem":
        """Return a `Problem` at this location."""
        return Problem(code, message, self.position, self.field, found, expected, suggestion, severity)


@record(frozen=True)
class Problem:
    """One error, warning or note about a file, with its position, field and what was probably meant.

    `code` names the kind of problem for programs, such as ``unknown-field``; `message` states it for people,
    including what was `found` and `expected`, which are also fields of their own. As a string it is one line
    that is safe to print, whatever the file contains. `frames` are the lines of a plugin's code that led
    to it, outermost first, which only `problem_lines` shows, on request.
    """

    code: str
    message: str
    position: Position | None = None
    field: str = ""
    found: str | None = None
    expected: str | None = None
    suggestion: str | None = None
    severity: Severity = "error"
    frames: tuple[str, ...] = record_field(default_factory=tuple, compare=False)

    def __post_init__(self) -> None:
        # A file may hold names of any length, and as many problems that name them.
        for part in ("message", "field", "found", "expected", "suggestion"):
            text = getattr(self, part)
            if text is not None and len(text) > _LONGEST:
                object.__setattr__(self, part, text[:_LONGEST] + "…")

    def __str__(self) -> str:
        parts = [str(self.position)] if self.position else []
        way = " ← ".join(self.position.way) if self.position else ""
        text = f"{self.text}; required by {way}" if way else self.text
        return printable(": ".join([*parts, self.severity, text]))

    @property
    def text(self) -> str:
        """The message with field and suggestion, without the position."""
        text = f"{self.field}: {self.message}" if self.field else self.message
        return text if self.suggestion is None else f"{text}; did you mean {self.suggestion}?"

    def to_json(self) -> dict[str, Any]:
        """Return the problem as a JSON object, without empty fields."""
        document: dict[str, Any] = {**vars(self), **(vars(self.position) if self.position else {})}
        del document["position"], document["frames"]
        document.pop("required_by", None)
        document["requiredBy"] = list(self.position.way) if self.position else []
        return {key: value for key, value in document.items() if value not in (None, "", 0, [])}


def unexpected(expected: str | None, found: str | None) -> str:
    """Return the message that `expected` was expected and `found` was found; either may be None."""
    if expected is None:
        return "invalid value" if found is None else f"invalid value: {found}"
    return f"expected {expected}" if found is None else f"expected {expected}, found {found}"


class InvalidInput(Exception):
    """The exception for invalid user input; `problems` has all the reasons."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem_lines(self.problems)))


class Problems:
    """A collection of problems without duplicates.

    `mask` hides secrets in the values that messages show; whoever reads the secrets sets it.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self.mask = mask
        self.suggestions = Suggestions()
        self._found: dict[Problem, None] = {}

    def add(self, *problems: Problem) -> None:
        """Add problems to the collection."""
        self._found.update(dict.fromkeys(problems))

    @property
    def in_order(self) -> tuple[Problem, ...]:
        """All problems, ordered by position."""
        return in_order(self._found)

    @property
    def has_errors(self) -> bool:
        """Whether a problem is an error, not a warning or a note."""
        return bool(errors(self._found))

    def tolerate(self, is_harmless: Callable[[Problem], bool], consequence: str) -> None:
        """Turn harmless errors into warnings, with the `consequence` at the end of their messages."""

        def tolerated(problem: Problem) -> Problem:
            if problem.severity != "error" or not is_harmless(problem):
                return problem
            return replace(problem, message=f"{problem.message}; {consequence}", severity="warning")

        self._found = dict.fromkeys(map(tolerated, self._found))

    def check(self) -> None:
        """Raise `InvalidInput` with all problems if one of them is an error."""
        if self.has_errors:
            raise InvalidInput(self.in_order)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Add the problems of an `InvalidInput` that the block raises, instead of letting it propagate."""
        try:
            yield
        except InvalidInput as error:
            self.add(*error.problems)


def problem_lines(problems: Sequence[Problem], *, frames: bool = False) -> Iterator[str]:
    """Yield the first `MOST_SHOWN` problems as lines, with their frames on request, and how many more."""
    for problem in problems[:MOST_SHOWN]:
        yield str(problem)
        if frames:
            yield from (f"    {printable(frame)}" for frame in problem.frames)
    if len(problems) > MOST_SHOWN:
        yield f"and {len(problems) - MOST_SHOWN} more"


def bounded(problems: Iterable[Problem], position: Position) -> list[Problem]:
    """Remove duplicates, and cut the list at `MOST_LOOKED_FOR` with a problem at `position` that says so."""
    found: dict[Problem, None] = {}
    for problem in problems:
        if len(found) == MOST_LOOKED_FOR and problem not in found:
            message = f"more than {MOST_LOOKED_FOR} problems; only some of them are listed"
            return [Problem("too-many-problems", message, position), *found]
        found[problem] = None
    return list(found)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Remove duplicates and sort by position: problems without a file first, then files as they occur."""
    files: dict[str, int] = {}

    def file_and_position(problem: Problem) -> tuple[int, int, int]:
        if problem.position is None:
            return (-1, 0, 0)
        file = files.setdefault(problem.position.file, len(files))
        return (file, problem.position.line, problem.position.column)

    return tuple(sorted(dict.fromkeys(problems), key=file_and_position))


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems that are errors."""
    return tuple(problem for problem in problems if problem.severity == "error")


def as_warnings(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems with every error turned into a warning."""
    return (replace(each, severity="warning") if each.severity == "error" else each for each in problems)


def stricter(problem: Problem) -> Problem:
    """Return a problem as ``--strict`` treats it: a warning becomes an error."""
    return replace(problem, severity="error") if problem.severity == "warning" else problem


def validity(problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the JSON object about something with these problems."""
    shown = [problem.to_json() for problem in problems[:MOST_SHOWN]]
    more = {"more": len(problems) - MOST_SHOWN} if len(problems) > MOST_SHOWN else {}
    return {"valid": not errors(problems), "problems": shown, **more}


class Suggestions:
    """A limited source of spelling suggestions: only for the first hundred words, since each takes time."""

    def __init__(self) -> None:
        self._left = _MOST_SUGGESTED

    def near_miss(self, word: str, known: Iterable[str]) -> str | None:
        """Return the known word that `word` was probably meant to be; None without one or after too many."""
        self._left -= 1
        return near_miss(word, known) if self._left >= 0 else None


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` was probably meant to be, ignoring case; None if none is similar."""
    if len(word) > _LONGEST_COMPARED:
        return None
    near = _NEAR_SHORT if len(word) == 3 else _NEAR  # noqa: PLR2004 - see there
    by_lower = {
        candidate.lower(): candidate
        for candidate in islice(known, _MOST_COMPARED)
        if 2 * min(len(word), len(candidate)) >= near * (len(word) + len(candidate))
    }
    import difflib  # noqa: PLC0415 - only where something is misspelt

    matches: Sequence[str] = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=near)
    return by_lower[matches[0]] if matches else None


def listed(names: Sequence[str]) -> str:
    """Join names for a message, with limits on their number and length."""
    shown = [name[:_LONGEST_LISTED] for name in names[:_MOST_LISTED]]
    return ", ".join(shown) + (", …" if len(names) > _MOST_LISTED else "")


def field_name(path: Iterable[str | int]) -> str:
    """Return a document path as people write it, such as ``taskRoles.worker.commands[0]``."""
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name
