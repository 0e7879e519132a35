"""Problems: what is wrong with a file that a user wrote, where, and what was expected."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal

from pai_runtime.document.printable import printable
from pai_runtime.task.record import field, record, replace

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
"""For words of three letters, such as ``git``: two of them are right."""


DocumentPath = tuple[str | int, ...]
"""Keys and indexes that lead from a value to one below it."""

Severity = Literal["error", "warning", "note"]
"""A note tells what was decided, to no harm: it is never made an error."""


@record(frozen=True)
class Position:
    """Where something is in a file; line and column count from 1. Line 0 is the file as a whole.

    `required_by` is where a definition is required that is written in this file; None for what people named
    themselves, such as the job file. However one came to it, it is the same position: a problem there is
    reported once, with the first way.
    """

    file: str
    line: int = 0
    column: int = 0
    required_by: "Position | None" = field(default_factory=lambda: None, compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def way(self) -> tuple[str, ...]:
        """The places by which a job came to it, nearest first; empty for what is in the job file itself."""
        places = []
        position = self.required_by
        while position is not None:
            places.append(str(position))
            position = position.required_by
        return tuple(places)


@record(frozen=True)
class Location:
    """Where a value is written, and its key, and the name of its field.

    `written` is how it is written, if that is known and on one line.
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
        """What is wrong here; see `Problem`."""
        return Problem(code, message, self.position, self.field, found, expected, suggestion, severity)


@record(frozen=True)
class Problem:
    """One thing that is wrong: where, in which field, what it is, and what was probably meant.

    `code` names the kind of problem for programs, such as ``unknown-field``; `message` says it to people,
    with what was `found` and what was `expected`, which programs have on their own too. As text it is one
    line that a terminal shows as it is, whatever the file holds.
    """

    code: str
    message: str
    position: Position | None = None
    field: str = ""
    found: str | None = None
    expected: str | None = None
    suggestion: str | None = None
    severity: Severity = "error"

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
        """The problem without where it is."""
        text = f"{self.field}: {self.message}" if self.field else self.message
        return text if self.suggestion is None else f"{text}; did you mean {self.suggestion}?"

    def to_json(self) -> dict[str, Any]:
        """The problem as data, without what is not known."""
        document: dict[str, Any] = {**vars(self), **(vars(self.position) if self.position else {})}
        del document["position"]
        document.pop("required_by", None)
        document["requiredBy"] = list(self.position.way) if self.position else []
        return {key: value for key, value in document.items() if value not in (None, "", 0, [])}


def unexpected(expected: str | None, found: str | None) -> str:
    """The message that something else than `expected` was `found`."""
    if expected is None:
        return "invalid value" if found is None else f"invalid value: {found}"
    return f"expected {expected}" if found is None else f"expected {expected}, found {found}"


class InvalidInput(Exception):
    """A user's input is invalid, for all of these reasons."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem_lines(self.problems)))


class Problems:
    """The problems found so far, each once.

    `mask` hides secrets in what messages show of values; who reads the secrets sets it.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self.mask = mask
        self.suggestions = Suggestions()
        self._found: dict[Problem, None] = {}

    def add(self, *problems: Problem) -> None:
        """Report them."""
        self._found.update(dict.fromkeys(problems))

    @property
    def in_order(self) -> tuple[Problem, ...]:
        """All of them, by their positions."""
        return in_order(self._found)

    @property
    def has_errors(self) -> bool:
        """Whether one of them is more than a warning."""
        return bool(errors(self._found))

    def tolerate(self, is_harmless: Callable[[Problem], bool], consequence: str) -> None:
        """Make warnings of errors that are harmless; their messages end with the `consequence`."""

        def tolerated(problem: Problem) -> Problem:
            if problem.severity != "error" or not is_harmless(problem):
                return problem
            return replace(problem, message=f"{problem.message}; {consequence}", severity="warning")

        self._found = dict.fromkeys(map(tolerated, self._found))

    def check(self) -> None:
        """Raise `InvalidInput` with all of them, if there is an error."""
        if self.has_errors:
            raise InvalidInput(self.in_order)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Report what is raised as `InvalidInput` in the block, which ends by it."""
        try:
            yield
        except InvalidInput as error:
            self.add(*error.problems)


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
            message = f"more than {MOST_LOOKED_FOR} problems; only some of them are listed"
            return [Problem("too-many-problems", message, position), *found]
        found[problem] = None
    return list(found)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each problem once: those of no file, then file by file as they come, by their positions there."""
    files: dict[str, int] = {}

    def file_and_position(problem: Problem) -> tuple[int, int, int]:
        if problem.position is None:
            return (-1, 0, 0)
        file = files.setdefault(problem.position.file, len(files))
        return (file, problem.position.line, problem.position.column)

    return tuple(sorted(dict.fromkeys(problems), key=file_and_position))


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Those that are not warnings."""
    return tuple(problem for problem in problems if problem.severity == "error")


def as_warnings(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The same, none of them more than a warning."""
    return (replace(each, severity="warning") if each.severity == "error" else each for each in problems)


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
    """Names as a message lists them: so many of them, and so much of each."""
    shown = [name[:_LONGEST_LISTED] for name in names[:_MOST_LISTED]]
    return ", ".join(shown) + (", …" if len(names) > _MOST_LISTED else "")


def field_name(path: Iterable[str | int]) -> str:
    """A path in a document as people write it: ``taskRoles.worker.commands[0]``."""
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name
