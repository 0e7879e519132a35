"""The schema by which OpenPAI's REST server checks jobs, and its errors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft7Validator, ValidationError

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_WHOLE: _Schema = {"type": "integer"}
_TEXTS: _Schema = {"type": "array", "items": _TEXT}
_SOME_TEXTS: _Schema = {**_TEXTS, "minItems": 1}
_COUNT: _Schema = {"type": ["integer", "null"]}
_KEY = "^[a-zA-Z_][a-zA-Z0-9_]*$"
_COMMON: Mapping[str, _Schema] = {
    "protocolVersion": {"enum": ["2", 2]},
    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$", "maxLength": 255},
    "version": {"type": ["string", "number"]},
    "contributor": _TEXT,
    "description": _TEXT,
}


def _closed(properties: Mapping[str, _Schema], *required: str) -> _Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _by_name(each: _Schema) -> _Schema:
    return {"patternProperties": {_KEY: each}, "minProperties": 1, "additionalProperties": False}


def _prerequisite(types: Sequence[str], uri: _Schema) -> _Schema:
    fields = {"type": {"type": "string", "enum": list(types)}, "plugin": _TEXT, "require": _TEXTS, "uri": uri}
    return {"type": "object", "properties": {**_COMMON, **fields}, "required": ["name", "type"]}


_IMAGE = _closed(
    {
        **_COMMON,
        "type": {"type": "string", "enum": ["dockerimage"]},
        "auth": {
            "type": "object",
            "properties": {"username": _TEXT, "password": _TEXT, "registryuri": _TEXT},
        },
        "uri": _TEXT,
    },
    *("name", "type", "uri"),
)
_ROLE = _closed(
    {
        "protocolVersion": _COMMON["protocolVersion"],
        "instances": {"type": "integer", "minimum": 1},
        "completion": _closed({"minFailedInstances": _COUNT, "minSucceededInstances": _COUNT}),
        "taskRetryCount": _WHOLE,
        "prerequisites": _TEXTS,
        **dict.fromkeys(("dockerImage", "data", "output", "script"), _TEXT),
        "extraContainerOptions": {"type": "object", "properties": {"shmMB": _WHOLE}},
        "resourcePerInstance": _closed(
            {"cpu": _WHOLE, "memoryMB": _WHOLE, "gpu": _WHOLE, "ports": _by_name(_WHOLE)},
            *("cpu", "memoryMB", "gpu"),
        ),
        "commands": _SOME_TEXTS,
    },
    *("dockerImage", "resourcePerInstance", "commands"),
)
_DEPLOYMENT: _Schema = {
    "type": "object",
    "properties": {
        "protocolVersion": _COMMON["protocolVersion"],
        "name": _COMMON["name"],
        "taskRoles": _by_name(_closed({"preCommands": _SOME_TEXTS, "postCommands": _SOME_TEXTS})),
    },
    "required": ["name", "taskRoles"],
}
_KINDS = [_prerequisite(("script", "output"), _TEXT), _prerequisite(("data",), _TEXTS), _IMAGE]
_JOB = _closed(
    {
        **_COMMON,
        "type": {"type": "string", "enum": ["job"]},
        "prerequisites": {"type": "array", "items": {"type": "object", "oneOf": _KINDS}, "minItems": 1},
        "parameters": {"type": "object"},
        "secrets": {"type": "object"},
        "jobRetryCount": {"type": "integer", "minimum": 0},
        "taskRoles": _by_name(_ROLE),
        "deployments": {"type": "array", "items": _DEPLOYMENT, "minItems": 1},
        "defaults": {"type": "object", "properties": {"deployment": _TEXT}},
        "extras": {"type": "object"},
    },
    *("protocolVersion", "name", "type", "taskRoles"),
)
_VALIDATOR = Draft7Validator(_JOB)
_NAMED = ("taskRoles", "ports")
"""Fields whose keys are in brackets in the path of an error."""


def schema_errors(document: Any) -> list[dict[str, Any]]:
    return [found for error in _VALIDATOR.iter_errors(document) for found in _found(error)]


def _found(error: ValidationError) -> Iterator[dict[str, Any]]:
    for each in error.context or ():  # the alternatives of a prerequisite
        yield from _found(each)
    yield schema_error(_path(error.absolute_path), str(error.validator), error.message)


def schema_error(path: str, keyword: str, message: str) -> dict[str, Any]:
    """An error in the form of the server's, in other words."""
    place = f"#/{keyword}"
    return {"keyword": keyword, "dataPath": path, "schemaPath": place, "params": {}, "message": message}


def _path(parts: Iterable[str | int]) -> str:
    path, above = "", ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f"['{part}']" if above in _NAMED else f".{part}"
        above = str(part)
    return path
