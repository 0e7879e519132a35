"""What requests send and answers have: typed dictionaries as JSON Schema, and JSON checked by them."""

from collections.abc import Mapping
from inspect import getdoc
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from pai_marketplace.errors import Invalid

_SIMPLE: Final[Mapping[Any, Mapping[str, str]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def json_schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type; those of the typed dictionaries in it are added to `schemas`."""
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return {"enum": list(parts)}
    if get_origin(kind) is list:
        return {"type": "array", "items": json_schema(parts[0], schemas)}
    if parts:
        return {"anyOf": [json_schema(each, schemas) for each in parts]}
    name = kind.__name__
    if name not in schemas:
        schemas[name] = {
            "type": "object",
            "description": getdoc(kind),
            "properties": {field: json_schema(each, schemas) for field, each in get_type_hints(kind).items()},
            "required": sorted(kind.__required_keys__),
        }
    return {"$ref": f"#/components/schemas/{name}"}


def checked(kind: Any, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of a typed dictionary, None for those that were not sent. Raises `Invalid`.

    They are strings, lists of strings or booleans, each or null.
    """
    return {
        field: _checked(get_args(each), sent.get(field), field)
        for field, each in get_type_hints(kind).items()
    }


def _checked(kinds: tuple[Any, ...], value: Any, field: str) -> Any:
    if value is None:
        return None
    if list[str] in kinds:
        if not isinstance(value, list):
            raise Invalid(f"expected a list of strings as {field}")
        return [_string(each, field) for each in value]
    if bool in kinds:
        if not isinstance(value, bool):
            raise Invalid(f"expected true or false as {field}")
        return value
    return _string(value, field)


def _string(value: Any, field: str) -> str:
    if not isinstance(value, str) or "\0" in value or not _is_unicode(value):
        raise Invalid(f"expected a string as {field}")
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
