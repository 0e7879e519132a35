"""Values in the JSON of a server, which may be anything."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

_NOTHING: Final[Mapping[str, Any]] = {}


def json_object(data: bytes | str) -> dict[str, Any] | None:
    """Return the object that some JSON is; None if it is none, or no JSON."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def mapping(document: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path; empty if there is none."""
    found = _at(document, path)
    return found if isinstance(found, dict) else _NOTHING


def mappings(document: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list at a path; empty if there is no list."""
    found = _at(document, path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def string(document: Any, *path: str) -> str:
    """Return the string at a path, unchanged; empty if there is none."""
    found = _at(document, path)
    return found if isinstance(found, str) else ""


def _at(document: Any, path: Iterable[str]) -> Any:
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document
