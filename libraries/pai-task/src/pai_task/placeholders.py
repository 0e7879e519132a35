r"""Placeholders, which name a secret in a text without its value.

In the strings of a plan, and in the parameters that a plugin is given while the plan is made, the secret
at path ``y.0`` is the text ``"\0y.0\0"``. A job file cannot hold the character NUL (the loader refuses
it), so no text that a user writes can be taken for a placeholder; and a program that is handed one by
mistake fails at once instead of running with a wrong value.
"""

from __future__ import annotations

# Not from `collections.abc`: a supervisor has this one loaded.
from _collections_abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def placeholder(path: str) -> str:
    """Return the placeholder of the secret at `path` (names and list indexes joined by dots)."""
    return f"\0{path}\0"


def platform_path(name: str) -> str:
    """Return the path of a platform's secret, which no secret of a job, and no placeholder, can have."""
    return f"\0{name}"


def paths(value: Any) -> set[str]:
    """Return the paths of all secrets named in `value`: a string, or lists and dicts of them."""
    if isinstance(value, str):
        return set(_split(value)[1::2]) if "\0" in value else set()
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return set()
    return {path for item in value for path in paths(item)}


def has_secret(value: Any) -> bool:
    """Return whether a parameter, or anything in it, contains the placeholder of a secret."""
    return bool(paths(value))


def fill(value: Any, secrets: Mapping[str, str]) -> Any:
    """Replace every placeholder in `value` by its secret. Raises KeyError with the path of a missing one."""
    if isinstance(value, str):
        return _replaced(value, secrets.__getitem__)
    if isinstance(value, Mapping):
        return {key: fill(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fill(item, secrets) for item in value]
    return value


def show(text: str) -> str:
    r"""`text` as a person wrote it: each placeholder as ``<% $secrets.path %>``.

    What only looks like one begins with ``\x3c%``.
    """
    parts = _split(text) if "\0" in text else [text]
    parts[::2] = map(_literal, parts[::2])
    parts[1::2] = (f"<% $secrets.{path} %>" for path in parts[1::2])
    return "".join(parts)


def _literal(text: str) -> str:
    first, *others = text.split("<%")
    return first + "".join(
        (r"\x3c%" if each.lstrip().startswith("$secrets") else "<%") + each for each in others
    )


def _replaced(text: str, value_of: Callable[[str], str]) -> str:
    if "\0" not in text:
        return text
    parts = _split(text)
    parts[1::2] = map(value_of, parts[1::2])
    return "".join(parts)


def _split(text: str) -> list[str]:
    """Split a text at its placeholders; the items at odd indexes are their paths."""
    parts = text.split("\0")
    if len(parts) % 2 == 0:  # the last NUL ends no placeholder
        parts[-2:] = ["\0".join(parts[-2:])]
    return parts
