"""Recognition and validation of jobs of version 1, with messages in its own terms."""

from collections.abc import Iterable
from typing import Any

from pai_job_v1.fields import items
from pai_runtime.plugin.job_format import Problem, Problems, Severity, Value, check_value, package_schema

_OF_THE_PORTAL = "tmp"
"""The field with the portal's page state, which it wrote into the job."""


def is_version_1(root: Value) -> bool:
    """Return whether a document is meant as a job of version 1, valid or not."""
    others = Problems()
    check_value(root, package_schema("pai_job_v1", "manifest.json")["jobFormat"], others)
    return not others.in_order and "protocolVersion" not in root.data


def check_version_1(root: Value, problems: Problems) -> None:
    """Report all that is wrong with a job of version 1, and what of it has no effect."""
    schema = package_schema("pai_job_v1", "job.schema.json")
    check_value(root, schema, problems)
    roles = items(root, "taskRoles")
    _check_unique(roles, "name", "task role", problems)
    ports = []
    for role in roles:
        ports += items(role, "portList")
        _check_unique(items(role, "portList"), "label", "port", problems)
    of = schema["$defs"]
    _check_unknown([(root, schema), *((role, of["taskRole"]) for role in roles)], problems)
    _check_unknown([(port, of["port"]) for port in ports], problems)


def _check_unique(values: Iterable[Value], key: str, what: str, problems: Problems) -> None:
    first: dict[str, Value] = {}
    for value in values:
        name = value.get(key)
        if name is None or not isinstance(name.data, str):
            continue
        before = first.setdefault(name.data, name)
        if before is not name:
            message = f"duplicate {key} '{name.data}' of a {what}; the first one is at {before.position}"
            problems.add(name.problem("duplicate-name", message, found=f"'{name.data}'"))


def _check_unknown(values: Iterable[tuple[Value, Any]], problems: Problems) -> None:
    """Warn of each unknown field that resembles a known one, and once of all others."""
    others = []
    for value, schema in values:
        known = schema["properties"]
        for child in value.values() if isinstance(value.data, dict) else ():
            if child.key in known:
                continue
            meant = problems.suggestions.near_miss(str(child.key), known)
            if meant and meant not in value.data:
                message = "unknown field, which has no effect"
                problems.add(_unknown(child, message, child.field, "warning", meant))
            else:
                others.append(child)
    if others:
        names = ", ".join(dict.fromkeys(str(child.key) for child in others))
        message = f"fields that version 1 does not know have no effect: {names}"
        is_harmless = all(child.key == _OF_THE_PORTAL for child in others)
        problems.add(_unknown(others[0], message, "", "note" if is_harmless else "warning"))


def _unknown(value: Value, message: str, field: str, severity: Severity, meant: str | None = None) -> Problem:
    return Problem("unknown-field", message, value.key_position, field, suggestion=meant, severity=severity)
