"""A Framework object read field by field: what is not as expected is named by its path."""

from __future__ import annotations

import re
from typing import Any

from pai_runtime.document.printable import printable
from pai_runtime.document.problems import field_name, unexpected
from pai_runtime.task import fast_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_SHOWN = 60
_LONGEST_MESSAGE = 1000
_MOST_CONTAINERS, _MOST_VALUES = 500_000, 2_000_000
"""Objects and lists in a Framework, and values; one of so many bytes as are read has fewer."""


class BadFramework(ValueError):
    """A field of a Framework object is missing or not what is expected; the message begins with its path."""


class Field:
    """A value in a JSON document and, for messages, how it is reached. All methods raise `BadFramework`."""

    __slots__ = ("_above", "_key", "data")

    def __init__(self, data: Any, above: Field | None = None, key: str | int = "") -> None:
        self.data = data
        self._above = above
        self._key = key

    @property
    def name(self) -> str:
        """Its path from the root: ``spec.taskRoles[0].name``."""
        keys: list[str | int] = []
        field = self
        while field._above is not None:
            keys.append(field._key)
            field = field._above
        return field_name(reversed(keys))

    def wrong(self, expected: str) -> BadFramework:
        """The error that this is something else than expected."""
        return self.bad(unexpected(expected, _shown(self.data)))

    def bad(self, message: str) -> BadFramework:
        """The error that there is something wrong with this."""
        return BadFramework(printable(f"{self.name or 'document'}: {message}"[:_LONGEST_MESSAGE]))

    def get(self, key: str) -> Field | None:
        """What an object has under this key; None where it has nothing or null."""
        value = self._object().get(key)
        return None if value is None else Field(value, self, key)

    def at(self, *keys: str) -> Field:
        """What is there under these keys."""
        field = self
        for key in keys:
            below = field.get(key)
            if below is None:
                raise Field(None, field, key).wrong("a value")
            field = below
        return field

    def entries(self) -> Iterator[tuple[str, Field]]:
        """The keys and values of an object."""
        return ((key, Field(value, self, key)) for key, value in self._object().items())

    def items(self) -> Iterator[Field]:
        """The items of a list."""
        if not isinstance(self.data, list):
            raise self.wrong("a list")
        return (Field(item, self, index) for index, item in enumerate(self.data))

    def text(self, pattern: str = "", expected: str = "a text") -> str:
        """A text that can be written in UTF-8 and that the pattern, if any, matches as a whole."""
        data = self.data
        if (
            not isinstance(data, str)
            or not _is_unicode(data)
            or (pattern and not re.fullmatch(pattern, data))
        ):
            raise self.wrong(expected)
        return data

    def number(self, least: int, most: int) -> int:
        """A whole number within these bounds, both included."""
        data = self.data
        if type(data) is not int or not least <= data <= most:
            raise self.wrong(f"a whole number from {least} to {most}")
        return data

    def parsed(self, text: str | bytes) -> Field:
        """The same field, with the JSON document in its `text` as its value."""
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
    """Whether it has no half of a surrogate pair, which JSON can write and UTF-8 cannot."""
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
