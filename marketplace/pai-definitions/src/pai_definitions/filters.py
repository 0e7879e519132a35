"""Filters for expressions in templates: each result is bounded, and no message shows a value."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2 import Undefined

from pai_definitions.template import LONGEST, WrongTemplate, as_text

_MOST_BITS = 1024
_MOST_DIGITS = 300
_MOST_DECIMALS = 20


class WrittenInt(int):
    """An integer that is inserted as it was written."""

    written: str


class WrittenFloat(float):
    """A number that is inserted as it was written, such as ``0.10``."""

    written: str


def inserted_text(value: Any) -> str:
    """Return a single value as it is inserted into a text. Raises `WrongTemplate` for a list or mapping."""
    if isinstance(value, Undefined):
        str(value)  # raises what is the matter with it
    if isinstance(value, (list, tuple, dict)):
        raise WrongTemplate("expected a single value, found a list or mapping")
    return value.written if isinstance(value, (WrittenInt, WrittenFloat)) else as_text(value)


def is_number(value: Any) -> bool:
    """Return whether a value is a number, and not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def bounded_number(number: Any) -> Any:
    """Return a number. Raises `WrongTemplate` if it is too large."""
    if math.isfinite(number) if isinstance(number, float) else number.bit_length() <= _MOST_BITS:
        return number
    raise WrongTemplate("the number becomes too large")


def check_length(length: int) -> None:
    """Raise `WrongTemplate` if a text of this length would be too long."""
    if length > LONGEST:
        raise WrongTemplate(f"the text becomes longer than {LONGEST} characters")


def _replace(value: Any, old: Any, new: Any) -> str:
    text, old, new = inserted_text(value), inserted_text(old), inserted_text(new)
    if not old:
        raise WrongTemplate("'replace' needs a text to look for")
    check_length(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _join(values: Any, separator: Any = "") -> str:
    if not isinstance(values, (list, tuple)):
        raise WrongTemplate("'join' works on a list")
    between, texts, length = inserted_text(separator), [], 0
    for value in values:
        texts.append(inserted_text(value))
        length += len(texts[-1]) + (len(between) if length else 0)
        check_length(length)
    return between.join(texts)


def _number(make: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    def made(value: Any) -> Any:
        number = value if is_number(value) else inserted_text(value).strip()[:_MOST_DIGITS]
        try:
            return bounded_number(make(number))
        except ValueError:
            raise WrongTemplate(f"expected {what}") from None

    return made


def _round(value: Any, decimals: int = 0) -> float:
    if not is_number(value) or abs(decimals) > _MOST_DECIMALS:
        raise WrongTemplate(f"'round' works on numbers, with at most {_MOST_DECIMALS} decimals")
    return round(float(value), decimals)


def _abs(value: Any) -> Any:
    if not is_number(value):
        raise WrongTemplate("'abs' works on numbers")
    return abs(value)


def _length(value: Any) -> int:
    if not isinstance(value, (str, list, tuple, dict)):
        raise WrongTemplate("'length' works on texts, lists and mappings")
    return len(value)


def _item(index: int, name: str) -> Callable[[Any], Any]:
    def item(value: Any) -> Any:
        if not isinstance(value, (str, list, tuple)) or not value:
            raise WrongTemplate(f"'{name}' works on texts and lists that are not empty")
        return value[index]

    return item


def _default(value: Any, default: Any = "", boolean: Any = False) -> Any:  # noqa: FBT002 - as that of Jinja2
    return default if isinstance(value, Undefined) or (boolean and not value) else value


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": _abs,
    "d": _default,
    "default": _default,
    "first": _item(0, "first"),
    "float": _number(float, "a number"),
    "int": _number(int, "a whole number"),
    "join": _join,
    "last": _item(-1, "last"),
    "length": _length,
    "lower": lambda value: inserted_text(value).lower(),
    "replace": _replace,
    "round": _round,
    "string": inserted_text,
    "trim": lambda value: inserted_text(value).strip(),
    "upper": lambda value: inserted_text(value).upper(),
}
"""The filters of templates, as in Jinja2, except that a value of the wrong type is an error."""
