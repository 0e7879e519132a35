"""The schema of a plugin as a part of another schema."""

from collections.abc import Mapping
from typing import Any


def definitions_of(schema: Mapping[str, Any], id_: str) -> dict[str, Any]:
    """Return what a plugin's schema is among the definitions of another one: under `id_`, with its own."""
    own = {key: value for key, value in schema.items() if key not in ("$schema", "$defs")}
    parts = {f"{id_}:{name}": part for name, part in schema.get("$defs", {}).items()}
    return {name: _moved(part, id_) for name, part in {**parts, id_: own}.items()}


def _moved(schema: Any, id_: str) -> Any:
    """Return a part of a plugin's schema whose references lead to where its definitions are now."""
    if isinstance(schema, list):
        return [_moved(each, id_) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(value, id_) for key, value in schema.items()}
    if isinstance(target := schema.get("$ref"), str):
        name = target.removeprefix("#/$defs/")
        moved["$ref"] = f"#/$defs/{id_}:{name}" if name != target else f"#/$defs/{id_}{target[1:]}"
    return moved
