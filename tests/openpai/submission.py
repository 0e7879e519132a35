"""What OpenPAI's REST server refuses, masks, and renders into commands."""

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

MOST_BYTES = 102_400
_SECRETS = re.compile(r"(^secrets:)[\s\S]*?(^\w)", re.MULTILINE | re.ASCII)
_LAST_SECRETS = re.compile(r"(^secrets:)[\s\S]*", re.MULTILINE)
_REFERENCE = re.compile(r"<%(.*?)%>", re.DOTALL)
_PARAMETER = re.compile(r"\s*\$parameters((?:\.\w+)+)\s*")
_TRIMMED = (
    f"\t\n\v\f\r \xa0\u1680{''.join(map(chr, range(0x2000, 0x200B)))}\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's ``trim`` drops."""
_INDEX = re.compile(r"\[(\d+)\]")
_TYPES = ("script", "output", "data", "dockerimage")


class Refused(Exception):
    """An error reply. Some have no code, and one sort of them is not even JSON."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.document = {"message": message} if code is None else {"code": code, "message": message}


@dataclass(frozen=True)
class Submission:
    """A job that was accepted. `public` is what every user can read of it."""

    name: str
    public: Mapping[str, Any]
    secrets: Mapping[str, Any]
    commands: Mapping[str, str]

    @property
    def virtual_cluster(self) -> str:
        return str((self.public.get("defaults") or {}).get("virtualCluster", "default"))


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the base class's
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(map(str, keys))) < len(keys):
            raise yaml.YAMLError("duplicated mapping key")
        return super().construct_mapping(node, deep)


def read_submission(text: str) -> Submission:
    """Read the body of a request; an error is what the server replies."""
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
        public = yaml.load(_masked(text), _Loader)  # noqa: S506
    except yaml.YAMLError as error:
        raise Refused(500, None, str(error)) from error
    _check(document)
    secrets = document.get("secrets") or {}
    return Submission(
        document["name"],
        json.loads(json.dumps(public, default=str)),
        secrets,
        {role: _commands(document, each) for role, each in document["taskRoles"].items()},
    )


def _masked(text: str) -> str:
    """One regular expression over the text: what it does not match is stored for everyone to read."""
    replaced, hits = _SECRETS.subn(lambda hit: f'{hit[1]} "******"\n{hit[2]}', text, count=1)
    return replaced if hits else _LAST_SECRETS.sub('secrets: "******"\n', text, count=1)


def _check(document: Any) -> None:
    if not isinstance(document, dict):
        raise invalid("", "type", "should be object", type="object")
    for key in ("protocolVersion", "name", "type", "taskRoles"):
        if key not in document:
            raise invalid("", "required", f"should have required property '{key}'", missingProperty=key)
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", str(document["name"])):
        pattern = "^[a-zA-Z0-9_-]+$"
        raise invalid(".name", "pattern", f'should match pattern "{pattern}"', pattern=pattern)
    if "secrets" in document and not isinstance(document["secrets"], dict):
        raise invalid(".secrets", "type", "should be object", type="object")
    for key in ("deployments", "prerequisites"):
        if document.get(key, True) == []:
            raise invalid(f".{key}", "minItems", "should NOT have fewer than 1 items", limit=1)
    images = _images(document)
    for name, role in document["taskRoles"].items():
        _check_role(name, role, images)


def _images(document: Mapping[str, Any]) -> set[str]:
    names: set[tuple[str, str]] = set()
    for index, each in enumerate(document.get("prerequisites") or ()):
        if not isinstance(each, dict) or each.get("type") not in _TYPES:
            where = f".prerequisites[{index}].type"
            message = "should be equal to one of the allowed values"
            raise invalid(where, "enum", message, allowedValues=list(_TYPES))
        if (each["type"], each["name"]) in names:
            raise Refused(
                400, "InvalidProtocolError", f"Duplicate {each['type']} prerequisites {each['name']}."
            )
        names.add((each["type"], each["name"]))
    return {name for kind, name in names if kind == "dockerimage"}


def _check_role(name: str, role: Mapping[str, Any], images: set[str]) -> None:
    where = f".taskRoles['{name}']"
    for key in ("dockerImage", "resourcePerInstance", "commands"):
        if key not in role:
            raise invalid(where, "required", f"should have required property '{key}'", missingProperty=key)
    if not isinstance(role.get("instances", 1), int):
        raise invalid(f"{where}.instances", "type", "should be integer", type="integer")
    resources = role["resourcePerInstance"]
    for key in ("cpu", "memoryMB", "gpu"):
        if key not in resources:
            message = f"should have required property '{key}'"
            raise invalid(f"{where}.resourcePerInstance", "required", message, missingProperty=key)
    for key in resources:
        if key not in ("cpu", "memoryMB", "gpu", "ports"):
            raise invalid(
                f"{where}.resourcePerInstance",
                "additionalProperties",
                "should NOT have additional properties",
                additionalProperty=key,
            )
    if role["dockerImage"] not in images:
        raise Refused(400, "InvalidProtocolError", f"Prerequisite {role['dockerImage']} does not exist.")


def invalid(where: str, keyword: str, message: str, **params: Any) -> Refused:
    """An error of the server's schema, whose message is the JSON text of the errors."""
    error = {
        "keyword": keyword,
        "dataPath": where,
        "schemaPath": f"#/{keyword}",
        "params": params,
        "message": message,
    }
    return Refused(400, "InvalidProtocolError", json.dumps([error], separators=(",", ":")))


def _commands(document: Mapping[str, Any], role: Mapping[str, Any]) -> str:
    parameters = document.get("parameters") or {}
    commands = "\n".join(str(each).strip(_TRIMMED) for each in role["commands"])
    return _REFERENCE.sub(lambda hit: _rendered(hit, parameters), commands).strip(_TRIMMED)


def _rendered(reference: re.Match[str], parameters: Any) -> str:
    if reference[1].startswith("!"):
        return ""
    if not (named := _PARAMETER.fullmatch(reference[1])):
        return f"<% {_INDEX.sub(_with_dot, reference[1].strip())} %>"
    value = parameters
    for key in named[1].split(".")[1:]:
        value = value.get(key) if isinstance(value, dict) else None
    return reference[0] if value is None else _in_javascript(value)


def _with_dot(index: re.Match[str]) -> str:
    return f".{index[1]}"


def _in_javascript(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, list):
        return ",".join(map(_in_javascript, value))
    if isinstance(value, (dt.date, dt.datetime)):
        return value.strftime("%a %b %d %Y 00:00:00 GMT+0000 (Coordinated Universal Time)")
    return "[object Object]" if isinstance(value, dict) else str(value)
