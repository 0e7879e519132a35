"""A fast pre-check against a JSON Schema, which either finds data valid or gives no verdict.

Most of what is checked is valid, and jsonschema, which says what is wrong with the rest, takes longer to
import than all that is then done with it. Only what is in plain words of JSON Schema 2020-12 is judged here;
at anything else, and at any fault, the answer is that it is not known.

jsonschema-rs was tried in its place: for examples/all-plugins.yaml it takes 15 ms, most of it for the import,
where this takes 1 ms, and its patterns are not Python's (digits and ends of lines mean less).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MOST_LEVELS = 100
_NAME = re.compile("[A-Za-z0-9_-]+")

_ANNOTATIONS: Final = frozenset(
    {
        "$comment",
        "$defs",
        "default",
        "deprecated",
        "description",
        "else",
        "examples",
        "format",
        "hints",
        "then",
        "title",
    }
)
"""Keywords that say nothing, or nothing by themselves. ``prefixItems`` and ``$id`` are not among them: they
change what others mean."""


class _NotKnown(Exception):
    """The signal that only jsonschema can decide."""


def is_surely_valid(data: Any, schema: Any) -> bool:
    """Return True if `data` certainly matches the schema; False gives no verdict."""
    try:
        return _is_valid(data, schema, schema)
    except (
        _NotKnown,
        RecursionError,
        ArithmeticError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        re.error,
    ):
        return False


def is_surely_schema(schema: Any) -> bool:
    """Return True if `schema` certainly is a JSON Schema; False gives no verdict."""
    try:
        return not _is_deep(schema) and _is_schema(schema)
    except (RecursionError, OverflowError, TypeError, re.error):
        return False


def _is_deep(schema: Any) -> bool:
    """Return whether a schema nests so deep that its use might exceed Python's recursion limit."""
    level = [schema]
    for _ in range(_MOST_LEVELS):
        level = [
            child
            for value in level
            if isinstance(value, (dict, list))
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def _is_number(data: Any) -> bool:
    return isinstance(data, (int, float)) and not isinstance(data, bool)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda data: isinstance(data, dict),
    "array": lambda data: isinstance(data, list),
    "string": lambda data: isinstance(data, str),
    "integer": lambda data: _is_number(data) and data == int(data),
    "number": _is_number,
    "boolean": lambda data: isinstance(data, bool),
    "null": lambda data: data is None,
}


def _is_valid(data: Any, schema: Any, root: Any) -> bool:
    """Return whether `data` matches the schema. Raises `_NotKnown` at anything that is not judged here."""
    if isinstance(schema, bool):
        return schema
    for keyword, value in schema.items():
        applies, is_valid = _KEYWORDS.get(keyword, _NO_KEYWORD)
        if is_valid is None:
            if keyword not in _ANNOTATIONS and (keyword != "$schema" or value != _DIALECT):
                raise _NotKnown(keyword)
        elif (applies is None or applies(data)) and not is_valid(data, value, schema, root):
            return False
    return True


def _type(data: Any, types: Any, _schema: Any, _root: Any) -> bool:
    return _TYPES[types](data) if isinstance(types, str) else any(_TYPES[name](data) for name in types)


def _enum(data: Any, values: Any, _schema: Any, _root: Any) -> bool:
    return any(_equal(data, value) for value in values)


def _equal(one: Any, other: Any) -> bool:
    """Compare as JSON Schema does: unlike in Python, true differs from 1.

    Raises `_NotKnown` for two containers.
    """
    if isinstance(one, (dict, list)) and isinstance(other, (dict, list)):
        raise _NotKnown("enum")
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _properties(data: Any, properties: Any, _schema: Any, root: Any) -> bool:
    return all(_is_valid(data[name], properties[name], root) for name in data.keys() & properties.keys())


def _additional(data: Any, allowed: Any, schema: Any, root: Any) -> bool:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return all(
        _is_valid(value, allowed, root)
        for name, value in data.items()
        if name not in known and not any(re.search(each, name) for each in patterns)
    )


def _patterns(data: Any, patterns: Any, _schema: Any, root: Any) -> bool:
    return all(
        _is_valid(value, schema, root)
        for pattern, schema in patterns.items()
        for name, value in data.items()
        if re.search(pattern, name)
    )


def _dependent(data: Any, dependencies: Any, _schema: Any, _root: Any) -> bool:
    return all(each in data for name, needed in dependencies.items() if name in data for each in needed)


def _if(data: Any, condition: Any, schema: Any, root: Any) -> bool:
    return _is_valid(data, schema.get("then" if _is_valid(data, condition, root) else "else", True), root)


def _reference(data: Any, reference: Any, _schema: Any, root: Any) -> bool:
    name = reference.removeprefix("#/$defs/")
    if not _NAME.fullmatch(name) or name == reference:
        raise _NotKnown("$ref")
    return _is_valid(data, root["$defs"][name], root)


_object, _array, _string = _TYPES["object"], _TYPES["array"], _TYPES["string"]
_Judge = Callable[[Any, Any, Any, Any], bool]
_KEYWORDS: Final[Mapping[str, tuple[Callable[[Any], bool] | None, _Judge]]] = {
    "type": (None, _type),
    "enum": (None, _enum),
    "const": (None, lambda data, value, schema, root: _enum(data, [value], schema, root)),
    "$ref": (None, _reference),
    "allOf": (None, lambda data, each, _, root: all(_is_valid(data, one, root) for one in each)),
    "anyOf": (None, lambda data, each, _, root: any(_is_valid(data, one, root) for one in each)),
    "oneOf": (None, lambda data, each, _, root: sum(_is_valid(data, one, root) for one in each) == 1),
    "not": (None, lambda data, schema, _, root: not _is_valid(data, schema, root)),
    "if": (None, _if),
    "properties": (_object, _properties),
    "patternProperties": (_object, _patterns),
    "additionalProperties": (_object, _additional),
    "propertyNames": (
        _object,
        lambda data, schema, _, root: all(_is_valid(each, schema, root) for each in data),
    ),
    "required": (_object, lambda data, names, *_: all(name in data for name in names)),
    "dependentRequired": (_object, _dependent),
    "minProperties": (_object, lambda data, least, *_: len(data) >= least),
    "maxProperties": (_object, lambda data, most, *_: len(data) <= most),
    "items": (_array, lambda data, schema, _, root: all(_is_valid(each, schema, root) for each in data)),
    "minItems": (_array, lambda data, least, *_: len(data) >= least),
    "maxItems": (_array, lambda data, most, *_: len(data) <= most),
    "pattern": (_string, lambda data, pattern, *_: re.search(pattern, data) is not None),
    "minLength": (_string, lambda data, least, *_: len(data) >= least),
    "maxLength": (_string, lambda data, most, *_: len(data) <= most),
    "minimum": (_is_number, lambda data, least, *_: data >= least),
    "maximum": (_is_number, lambda data, most, *_: data <= most),
    "exclusiveMinimum": (_is_number, lambda data, bound, *_: data > bound),
    "exclusiveMaximum": (_is_number, lambda data, bound, *_: data < bound),
}
"""To which data each keyword applies (None: to all), and whether they fit it."""
_NO_KEYWORD: Final = (None, None)


def _is_schema(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, dict) and all(
        keyword in _VALUES and _VALUES[keyword](each) for keyword, each in value.items()
    )


def _are_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _are_some_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and re.compile(value) is not None


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_string, value)) and len(value) == len(set(value))


def _are_types(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return _are_names(names) and bool(names) and all(name in _TYPES for name in names)


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


_VALUES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("$comment", "description", "format", "title"), _string),
    **dict.fromkeys(("default", "const"), lambda _: True),
    **dict.fromkeys(("enum", "examples"), _array),
    **dict.fromkeys(
        ("additionalProperties", "propertyNames", "items", "not", "if", "then", "else"), _is_schema
    ),
    **dict.fromkeys(("$defs", "properties"), _are_schemas),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _are_some_schemas),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_size),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_size),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "$schema": lambda value: value == _DIALECT,
    "$ref": lambda value: (
        isinstance(value, str) and value.startswith("#/$defs/") and bool(_NAME.fullmatch(value[8:]))
    ),
    "deprecated": _TYPES["boolean"],
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_are_names, value.values())),
    "pattern": _is_pattern,
    "patternProperties": lambda value: _are_schemas(value) and all(map(_is_pattern, value)),
    "required": _are_names,
    "type": _are_types,
}
"""The checks of each keyword's value in a schema."""
