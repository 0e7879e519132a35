"""The template in one text: the variables that it needs, and its rendering."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pai_runtime.definitions import Given

if TYPE_CHECKING:
    from pai_definitions.expressions import Expressions

LONGEST: Final = 64 * 1024
"""Maximum characters of a template, and of its rendered text."""

_MOST_EXPRESSIONS = 1000
_LEAST_WORK = 100
_MARK = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\{\{|\{%")
RESERVED: Final = frozenset(
    ["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None", "self"]
)
"""Names that are keywords in expressions."""


class WrongTemplate(Exception):
    """The exception for an invalid template, or one that cannot be rendered; the message shows no values."""


class Piece(NamedTuple):
    """A part of a rendered text: literal, or `inserted` with its value as data."""

    text: str
    inserted: bool = False
    data: Any = None


class Template:
    """A text with expressions; raises `WrongTemplate` if it is too long.

    One that needs no more than the values of variables is rendered without Jinja2, which takes longer to
    import than most else that is done here. `work` says how much there is to do for any other, in characters.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise WrongTemplate(f"it is longer than {LONGEST} characters")
        self._text = text
        self._marks = list(_MARK.finditer(text))
        if len(self._marks) > _MOST_EXPRESSIONS:
            raise WrongTemplate(f"it has more than {_MOST_EXPRESSIONS} expressions")
        has_names_only = all(mark[1] and mark[1] not in RESERVED for mark in self._marks)
        self.work = 0 if has_names_only else max(_LEAST_WORK, len(text))

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the template uses, in order. Raises `WrongTemplate`."""
        if self.work:
            return self._expressions.names
        return tuple(dict.fromkeys(mark[1] for mark in self._marks))

    @property
    def _expressions(self) -> "Expressions":
        from pai_definitions.expressions import parsed  # noqa: PLC0415 - see the class

        return parsed(self._text)

    def pieces(self, variables: Mapping[str, Given]) -> list[Piece]:
        """Render the template as a list of pieces. Raises `WrongTemplate`."""
        if self.work:
            return self._expressions.pieces(variables)
        pieces, end = [], 0
        for mark in self._marks:
            given = variables[mark[1]]
            pieces += [
                Piece(self._text[end : mark.start()]),
                Piece(given.text, inserted=True, data=given.data),
            ]
            end = mark.end()
        return [piece for piece in (*pieces, Piece(self._text[end:])) if piece.text or piece.inserted]


def has_template(data: object) -> bool:
    """Return whether a value is a text with expressions in it."""
    return isinstance(data, str) and ("{{" in data or "{%" in data)


def as_text(value: object) -> str:
    """Return a single value as inserted into a text, when its written form is unknown."""
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return "" if isinstance(value, (dict, list)) else str(value)


def joined(pieces: list[Piece]) -> tuple[str, list[tuple[int, int]]]:
    """Join pieces to a text; return it with the spans of inserted values. Raises `WrongTemplate`."""
    spans: list[tuple[int, int]] = []
    length = 0
    for piece in pieces:
        if isinstance(piece.data, (dict, list)):
            kind = "list" if isinstance(piece.data, list) else "mapping"
            raise WrongTemplate(
                f"a {kind} cannot stand in a text; only {{{{ name }}}} alone, without quotes, can be one"
            )
        begin, length = length, length + len(piece.text)
        if length > LONGEST:
            raise WrongTemplate(f"the text becomes longer than {LONGEST} characters")
        if piece.inserted and piece.text:
            spans.append((begin, length))
    return "".join(piece.text for piece in pieces), spans
