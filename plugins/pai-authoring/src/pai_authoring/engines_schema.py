"""The schema of engine profiles with the fields of the engines that may be used here, for editors."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pai_authoring.embedded_schema import definitions_of
from pai_runtime.command.jobs import Plugin

_Schema: TypeAlias = Mapping[str, Any]


def engines_schema(base: _Schema, engines: Iterable[tuple[Plugin, _Schema]]) -> dict[str, Any]:
    """Return the schema of ``engines.yaml``, where each of the engines has its schema of a profile."""
    schema = copy.deepcopy(dict(base))
    schema["$defs"] = {}
    profile = schema["properties"]["engines"]["additionalProperties"]
    profile["allOf"], names = [], []
    for plugin, own in engines:
        schema["$defs"] |= definitions_of(own, plugin.id)
        name = {"const": plugin.manifest.engine}
        named = {"required": ["engine"], "properties": {"engine": name}}
        profile["allOf"].append({"if": named, "then": {"$ref": f"#/$defs/{plugin.id}"}})
        names.append({**name, "description": plugin.manifest.summary})
    profile["properties"]["engine"]["anyOf"] = [*names, {}]
    return schema
