"""What OpenPAI's REST server refuses, masks, and renders into commands."""

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.openpai.job_schema import schema_errors

MOST_BYTES = 102_400
_SECRETS = re.compile(r"(^secrets:)[\s\S]*?(^\w)", re.MULTILINE | re.ASCII)
_LAST_SECRETS = re.compile(r"(^secrets:)[\s\S]*", re.MULTILINE)
_REFERENCE = re.compile(r"<%(.*?)%>", re.DOTALL)
_OTHER_TAGS = ("!", "&", ">")
"""How tags begin that are dropped; those of sections are no part of this stand-in."""
_TRIMMED = (
    f"\t\n\v\f\r \xa0\u1680{''.join(map(chr, range(0x2000, 0x200B)))}\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's ``trim`` drops."""
_INDEX = re.compile(r"\[(\d+)\]")


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
    """Refuses duplicate keys; ``yes`` and ``off`` are texts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the base class's
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(map(str, keys))) < len(keys):
            raise yaml.YAMLError("duplicated mapping key")
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if first in "tTfF" or not tag.endswith(":bool")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_submission(text: str) -> Submission:
    """Read the body of a request; an error is what the server replies."""
    document = _loaded(text)
    _check(document)
    commands = {role: _commands(document, each) for role, each in document["taskRoles"].items()}
    public = json.loads(json.dumps(_loaded(_masked(text)), default=_as_json))
    return Submission(document["name"], public, document.get("secrets", {}), commands)


def _loaded(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise Refused(500, None, str(error)) from error


def _as_json(value: dt.date) -> str:
    """Of a date, or of a date and time, which have no time zone here."""
    return f"{dt.datetime.combine(value, dt.time()):%Y-%m-%dT%H:%M:%S}.000Z"


def _masked(text: str) -> str:
    """One regular expression over the text: what it does not match is stored for everyone to read."""
    replaced, hits = _SECRETS.subn(lambda hit: f'{hit[1]} "******"\n{hit[2]}', text, count=1)
    return replaced if hits else _LAST_SECRETS.sub('secrets: "******"\n', text, count=1)


def _check(document: Any) -> None:
    if found := schema_errors(document):
        raise invalid(found)
    names: set[tuple[str, str]] = set()
    for each in document.get("prerequisites", ()):
        key = (each["type"], each["name"])
        if key in names:
            raise Refused(400, "InvalidProtocolError", f"Duplicate {key[0]} prerequisites {key[1]}.")
        names.add(key)
    known = {name for _, name in names}
    for role in document["taskRoles"].values():
        missing = [name for name in role.get("prerequisites", ()) if name not in known]
        kinds = [kind for kind in ("script", "output", "data", "dockerImage") if kind in role]
        missing += [role[kind] for kind in kinds if (kind.lower(), role[kind]) not in names]
        if missing:
            raise Refused(400, "InvalidProtocolError", f"Prerequisite {missing[0]} does not exist.")


def invalid(errors: list[dict[str, Any]]) -> Refused:
    """The refusal whose message is the JSON text of the errors of the server's schema."""
    return Refused(400, "InvalidProtocolError", json.dumps(errors, separators=(",", ":")))


def _commands(document: Mapping[str, Any], role: Mapping[str, Any]) -> str:
    named = {(each["type"], each["name"]): each for each in document["prerequisites"]}
    known = {f"${kind}": named.get((kind, role.get(kind))) for kind in ("script", "output", "data")}
    known["$parameters"] = document.get("parameters")
    commands = "\n".join(each.strip(_TRIMMED) for each in role["commands"])
    if "<%" in _REFERENCE.sub("", commands):
        raise Refused(500, None, "Unclosed tag")
    return _REFERENCE.sub(lambda hit: _rendered(hit[1], known), commands).strip(_TRIMMED)


def _rendered(reference: str, known: Any) -> str:
    name = _INDEX.sub(r".\1", reference.strip())
    if name.startswith(_OTHER_TAGS):
        return ""
    value = known
    for key in name.split("."):
        if isinstance(value, list):
            value = {str(index): each for index, each in enumerate(value)}
        value = value.get(key) if isinstance(value, dict) else None
    return f"<% {name} %>" if value is None else _in_javascript(value)


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
