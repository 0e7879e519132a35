"""The schema of job files with the parameters of the plugins that may be used here, for editors.

What it refuses, ``validate`` refuses too. That a name refers to something, and what a reference is rendered
to, only ``validate`` knows.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pai_authoring.embedded_schema import definitions_of
from pai_runtime.command.jobs import PLUGIN_PREFIX, Plugin

_Schema = dict[str, Any]

_NOT_OF_JOBS: Final = frozenset(
    ["pai_check_job", "pai_definitions", "pai_engine", "pai_init_container", "pai_read_job"]
)
"""Hooks of plugins that no job names."""
_REFERENCE: Final = "a reference"
_SCALARS: Final = frozenset(["integer", "number", "boolean", "string", "null"])

_LIMITS: Final = frozenset(["enum", "const", "pattern", "format", "maxLength"])


def job_schema(base: Mapping[str, Any], plugins: Iterable[Plugin]) -> _Schema:
    """Return the schema of job files, in which each of the plugins has its parameters."""
    schema: _Schema = copy.deepcopy(dict(base))
    definitions = schema["$defs"]
    definitions[_REFERENCE] = {"type": "string", "pattern": "<%.*%>"}
    named = [plugin for plugin in plugins if set(plugin.manifest.hooks) - _NOT_OF_JOBS]
    extra, prerequisite = definitions["extra"], definitions["prerequisite"]
    own = dict.fromkeys(prerequisite["properties"], True)
    extra["allOf"], prerequisite["allOf"] = [], []
    for plugin in named:
        parameters = _parameters(plugin, definitions)
        extra["allOf"].append(
            {
                "if": _names(plugin),
                "then": {"properties": {"parameters": {"$ref": f"#/$defs/{plugin.id}"}}},
            }
        )
        given = {key: parameters[key] for key in ("additionalProperties",) if key in parameters}
        properties = {**own, **parameters.get("properties", {})}
        then = {"properties": properties, **given}
        if plugin.manifest.callbacks:
            without = {"required": ["callbacks"], "not": {"required": ["plugin"]}}
            prerequisite["allOf"].append({"if": without, "then": then})
        prerequisite["allOf"].append({"if": _names(plugin), "then": then})
    for each in (extra, prerequisite):
        each["properties"]["plugin"] = {**each["properties"]["plugin"], "anyOf": [*_choices(named), {}]}
    return schema


def _ids(plugin: Plugin) -> list[str]:
    """Return what a job may call a plugin, the short name first."""
    short = plugin.id.removeprefix(PLUGIN_PREFIX)
    return [plugin.id] if short == plugin.id else [short, plugin.id]


def _names(plugin: Plugin) -> _Schema:
    """Return the schema of what names a plugin."""
    return {"required": ["plugin"], "properties": {"plugin": {"enum": _ids(plugin)}}}


def _choices(plugins: Iterable[Plugin]) -> list[_Schema]:
    """Return schemas by which an editor offers the plugins, each with what it does."""
    return [{"const": _ids(plugin)[0], "description": plugin.manifest.summary} for plugin in plugins]


def _parameters(plugin: Plugin, definitions: _Schema) -> _Schema:
    """Add the schema of a plugin's parameters, and those that it refers to, to the definitions."""
    title = f"a mapping with parameters of {_ids(plugin)[0]}"
    own = {"title": title, **plugin.manifest.parameters}
    found = {name: _rendered(part) for name, part in definitions_of(own, plugin.id).items()}
    definitions |= found
    parameters: _Schema = found[plugin.id]
    return parameters


def _rendered(schema: Any) -> Any:
    """Return a schema by which a reference may stand where a single value is expected.

    Parameters are checked once references are rendered, and an editor cannot render them.
    """
    if not isinstance(schema, dict):
        return schema
    found = {key: _rendered_part(key, value) for key, value in schema.items()}
    if not _is_single(found):
        return found
    said = {key: found.pop(key) for key in ("title", "description", "default") if key in found}
    return {**said, "anyOf": [found, {"$ref": f"#/$defs/{_REFERENCE}"}]}


def _rendered_part(key: str, value: Any) -> Any:
    if key in ("properties", "patternProperties") and isinstance(value, dict):
        return {name: _rendered(each) for name, each in value.items()}
    if key in ("allOf", "anyOf", "oneOf", "prefixItems") and isinstance(value, list):
        return [_rendered(each) for each in value]
    return _rendered(value) if key in ("items", "additionalProperties", "then", "else") else value


def _is_single(schema: _Schema) -> bool:
    """Return whether a schema is of single values, and not of any text."""
    kinds = schema.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    is_limited = not _LIMITS.isdisjoint(schema)
    return kinds <= _SCALARS and (is_limited or (bool(kinds) and "string" not in kinds))
