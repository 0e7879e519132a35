"""Records as JSON objects and back, as the annotations of their fields say.

A field ``sub_path`` is ``subPath`` there. Annotations are read as text, since what `typing` makes of them
takes longer than reading a plan: numbers, strings, booleans, ``Any``, records of the same module,
``tuple[X, ...]``, ``Mapping[str, X]`` and ``X | None``. Any other name is that of some strings.

A record may name fields in ``__omitted__``: JSON has none of these where it has its default. One that has a
`to_json` and a `from_json` of its own is left to these.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _T = TypeVar("_T")

_SCALARS = {"str": (str,), "bool": (bool,), "int": (int,), "float": (int, float)}
_MOST = {int: 1 << 63, float: 1 << 31}
"""What is below this fits into the kernel's numbers, and into its timeouts in milliseconds."""


class _Wrong(ValueError):
    """The fault of a value; `path` leads to it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str | int] = []

    def __str__(self) -> str:
        parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return ": ".join(filter(None, ("".join(parts).removeprefix("."), *map(str, self.args))))


def to_json(value: Any) -> dict[str, Any]:
    """Return a record as a JSON object, with its fields in their order."""
    fields = vars(value)
    return {
        key: write(fields[name]) if write else fields[name]
        for name, key, write, is_omitted in _writers(type(value))
        if not is_omitted or fields[name] != value.__record_defaults__[name]
    }


def from_json(kind: type[_T], document: Any) -> _T:
    """Return the record in a JSON object; a field that is missing has its default.

    Raises `ValueError` with the place of a value that is wrong.
    """
    readers = _readers(kind)
    fields = {}
    for key, value in _typed(document, dict).items():
        if key not in readers:
            raise _Wrong(f"unknown field {key!r}; known: {', '.join(readers)}")
        name, read = readers[key]
        fields[name] = _below(key, read, value)
    try:
        return kind(**fields)
    except TypeError as error:
        raise _Wrong(str(error)) from None


def _writers(kind: Any) -> list[tuple[str, str, Callable[[Any], Any] | None, bool]]:
    """Return for each field its name, its key, what writes its value, and whether its default is omitted."""
    if kind not in _WRITERS:
        omitted = getattr(kind, "__omitted__", ())
        _WRITERS[kind] = [
            (name, _camel(name), _writer(text, kind), name in omitted)
            for name, text in kind.__annotations__.items()
        ]
    return _WRITERS[kind]


def _readers(kind: Any) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """Return for each key the name of the field, and what reads its value."""
    if kind not in _READERS:
        omitted = getattr(kind, "__omitted__", ())
        _READERS[kind] = {
            _camel(name): (name, _reader(text.removesuffix(" | None") if name in omitted else text, kind))
            for name, text in kind.__annotations__.items()
        }
    return _READERS[kind]


_WRITERS: dict[Any, list[tuple[str, str, Callable[[Any], Any] | None, bool]]] = {}
_READERS: dict[Any, dict[str, tuple[str, Callable[[Any], Any]]]] = {}
"""What is made of the annotations of a record, once."""


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _record_of(text: str, kind: Any) -> Any:
    """Return the record that an annotation names, in the module of the record that has it; None if none."""
    named = getattr(sys.modules[kind.__module__], text, None)
    return named if hasattr(named, "__record_names__") else None


def _writer(text: str, kind: Any) -> Callable[[Any], Any] | None:
    """Return what makes JSON of a value with this annotation; None if it is JSON."""
    if text.endswith(" | None"):
        inner: Any = _writer(text.removesuffix(" | None"), kind)
        return (lambda value: None if value is None else inner(value)) if inner else None
    if text.startswith("tuple["):
        each: Any = _writer(text[len("tuple[") : -len(", ...]")], kind)
        return (lambda value: list(map(each, value))) if each else list
    if text.startswith("Mapping["):
        each = _writer(text[len("Mapping[str, ") : -1], kind)
        return (lambda value: {key: each(inner) for key, inner in value.items()}) if each else dict
    named = _record_of(text, kind)
    return getattr(named, "to_json", to_json) if named else None


def _reader(text: str, kind: Any) -> Callable[[Any], Any]:
    """Return what reads a value with this annotation from JSON, and raises `_Wrong` for another one."""
    if text == "Any":
        return lambda value: value
    if text.endswith(" | None"):
        inner = _reader(text.removesuffix(" | None"), kind)
        return lambda value: None if value is None else inner(value)
    if text.startswith("tuple["):
        each = _reader(text[len("tuple[") : -len(", ...]")], kind)
        return lambda value: tuple(_below(key, each, inner) for key, inner in enumerate(_typed(value, list)))
    if text.startswith("Mapping["):
        return _mapping_reader(text[len("Mapping[str, ") : -1], kind)
    if named := _record_of(text, kind):
        return getattr(named, "from_json", None) or (lambda value: from_json(named, value))
    kinds = _SCALARS.get(text, (str,))
    most = _MOST.get(kinds[-1])
    return lambda value: _bounded(_typed(value, *kinds), most) if most else _typed(value, *kinds)


def _mapping_reader(text: str, kind: Any) -> Callable[[Any], Any]:
    each, are_texts = _reader(text, kind), text == "str"

    def read(value: Any) -> Any:
        _typed(value, dict)
        if are_texts and set(map(type, value.values())) <= {str}:  # many variables, quickly
            return value
        return {key: _below(key, each, inner) for key, inner in value.items()}

    return read


def _below(key: str | int, read: Callable[[Any], Any], value: Any) -> Any:
    """Return what is read of a value; `key` leads to it."""
    try:
        return read(value)
    except _Wrong as wrong:
        wrong.path.insert(0, key)
        raise


def _typed(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise _Wrong(f"expected {names}, found {type(value).__name__}")
    return value


def _bounded(value: Any, most: int) -> Any:
    if not 0 <= value < most:
        raise _Wrong(f"expected a number from 0 to {most}, found another one")
    return value
