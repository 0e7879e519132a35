"""Typed access to the fields of a Framework object; errors name the path of the field."""

from __future__ import annotations

import re
from typing import Any

from pai_document.printable import printable
from pai_document.problems import field_name, unexpected
from pai_task import fast_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_SHOWN = 60
_LONGEST_MESSAGE = 1000
_MOST_CONTAINERS, _MOST_VALUES = 500_000, 2_000_000
"""Maximum number of objects and lists, and of values; more than the largest document can have."""


class BadFramework(ValueError):
    """The exception for a missing or unexpected field of a Framework; the message begins with its path."""


class Field:
    """A value in a JSON document, and its path for messages. All methods raise `BadFramework`."""

    __slots__ = ("_above", "_key", "data")

    def __init__(self, data: Any, above: Field | None = None, key: str | int = "") -> None:
        self.data = data
        self._above = above
        self._key = key

    @property
    def name(self) -> str:
        """The path from the root, such as ``spec.taskRoles[0].name``."""
        keys: list[str | int] = []
        field = self
        while field._above is not None:
            keys.append(field._key)
            field = field._above
        return field_name(reversed(keys))

    def wrong(self, expected: str) -> BadFramework:
        """Return the error that this field was expected to be something else."""
        return self.bad(unexpected(expected, _shown(self.data)))

    def bad(self, message: str) -> BadFramework:
        """Return the error about this field with a message."""
        return BadFramework(printable(f"{self.name or 'document'}: {message}"[:_LONGEST_MESSAGE]))

    def get(self, key: str) -> Field | None:
        """Return the value of a key of an object; None if it is missing or null."""
        value = self._object().get(key)
        return None if value is None else Field(value, self, key)

    def at(self, *keys: str) -> Field:
        """Return the value at a path of keys, all of which have to exist."""
        field = self
        for key in keys:
            below = field.get(key)
            if below is None:
                raise Field(None, field, key).wrong("a value")
            field = below
        return field

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Yield the keys and values of an object."""
        return ((key, Field(value, self, key)) for key, value in self._object().items())

    def items(self) -> Iterator[Field]:
        """Yield the items of a list."""
        if not isinstance(self.data, list):
            raise self.wrong("a list")
        return (Field(item, self, index) for index, item in enumerate(self.data))

    def text(self, pattern: str = "", expected: str = "a text") -> str:
        """Return a valid Unicode text, which the pattern, if any, has to match as a whole."""
        data = self.data
        if (
            not isinstance(data, str)
            or not _is_unicode(data)
            or (pattern and not re.fullmatch(pattern, data))
        ):
            raise self.wrong(expected)
        return data

    def number(self, least: int, most: int) -> int:
        """Return a whole number within inclusive bounds."""
        data = self.data
        if type(data) is not int or not least <= data <= most:
            raise self.wrong(f"a whole number from {least} to {most}")
        return data

    def parsed(self, text: str | bytes) -> Field:
        """Return the same field with the JSON document in `text` as its value."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        try:
            return Field(
                fast_json.loads_untrusted(data, _MOST_CONTAINERS, _MOST_VALUES), self._above, self._key
            )
        except ValueError as error:
            raise self.bad(f"not JSON: {error}") from None

    def _object(self) -> dict[str, Any]:
        if not isinstance(self.data, dict):
            raise self.wrong("an object")
        return self.data


def _is_unicode(text: str) -> bool:
    """Return whether a text has no unpaired surrogate, which JSON can contain and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(data: Any) -> str:
    if data is None:
        return "nothing"
    if isinstance(data, (dict, list)):
        return "an object" if isinstance(data, dict) else "a list"
    text = ascii(data) if isinstance(data, str) else fast_json.dumps(data)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
