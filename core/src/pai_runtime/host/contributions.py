"""What a plugin contributes, checked before it gets into a plan: its author may have put anything there."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, get_args

from pai_runtime.task.vocabulary import MountKind, Restart
from pai_runtime.plugin import EVENTS, Contribution, Mount, Service, Shell
from pai_runtime.task.placeholders import show

_SERVICE_TYPES: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "script": str,
    "probe": (str, type(None)),
    "ready_within": (int, float),
    "required": bool,
    "address": (str, type(None)),
    "linger": (int, float),
}

_MOST_SECONDS = 1_000_000_000

_MOUNT_TYPES: dict[str, type] = {"path": str, "source": str, "kind": str, "sub_path": str, "read_only": bool}


def contribution_fault(contribution: Contribution) -> str | None:
    """What makes a contribution unfit for a plan, whatever types its author has put there."""
    environment: Any = contribution.environment
    lists: dict[str, Any] = {
        "steps": contribution.steps,
        "services": contribution.services,
        "mounts": contribution.mounts,
        "secrets": contribution.secrets,
        "exit_rules": contribution.exit_rules,
        "warnings": contribution.warnings,
    }
    if not isinstance(environment, Mapping):
        return f"has an environment that is a {type(environment).__name__}, not a mapping"
    for what, values in lists.items():
        if not isinstance(values, (list, tuple)):
            return f"has {what} that are a {type(values).__name__}, not a list"
    faults = [
        *(_variable_fault(name, value) for name, value in environment.items()),
        *map(_step_fault, lists["steps"]),
        *map(_service_fault, lists["services"]),
        *map(_mount_fault, lists["mounts"]),
        *map(_secret_fault, lists["secrets"]),
        *map(_rule_fault, lists["exit_rules"]),
        *map(_warning_fault, lists["warnings"]),
    ]
    return next(filter(None, faults), None)


def contribution_to_json(contribution: Contribution) -> dict[str, Any]:
    """A contribution without fault as data."""
    return {
        **{field.name: getattr(contribution, field.name) for field in fields(Contribution)},
        "environment": dict(contribution.environment),
        "steps": _rows(contribution.steps, Shell),
        "services": _rows(contribution.services, Service),
        "mounts": _rows(contribution.mounts, Mount),
        "exit_rules": [dict(rule) for rule in contribution.exit_rules],
    }


def contribution_from_json(document: Any) -> Contribution:
    """Read what `contribution_to_json` gave, or anything else; raises ValueError."""
    try:
        contribution = Contribution(
            **{
                **document,
                "steps": [Shell(*row) for row in document["steps"]],
                "services": [Service(*row) for row in document["services"]],
                "mounts": [Mount(*row) for row in document["mounts"]],
            }
        )
        fault = contribution_fault(contribution)
    except (KeyError, TypeError) as error:
        raise ValueError("has given an answer that is no contribution") from error
    if fault:
        raise ValueError(fault)
    return contribution


def _rows(things: Iterable[Any], kind: type) -> list[list[Any]]:
    names = [field.name for field in fields(kind)]
    return [[getattr(thing, name) for name in names] for thing in things]


def _variable_fault(name: Any, value: Any) -> str | None:
    if not (isinstance(name, str) and isinstance(value, str)):
        return f"set the variable {name!r} to a value of type {type(value).__name__}, not text"
    if not name or "=" in name or "\0" in name or _unfit(name):
        return f"set a variable with the impossible name {name!r}"
    if _unfit(value):
        return f"set the variable {name} to text with NUL or half a character in it"
    return None


def _step_fault(step: Any) -> str | None:
    if not isinstance(step, Shell) or not isinstance(step.script, str):
        return f"has a step that is a {type(step).__name__}, not a Shell with a script"
    if step.event not in EVENTS:
        return f"has a step for {step.event!r}; expected one of {', '.join(EVENTS)}"
    if step.failure_policy not in (None, "fail", "ignore"):
        return f"has a step with the failure policy {step.failure_policy!r}; expected fail or ignore"
    if _unfit(step.script):
        return f"has a step for {step.event} with NUL or half a character in it"
    return None


def _service_fault(service: Any) -> str | None:
    if not isinstance(service, Service):
        return f"has a service that is a {type(service).__name__}, not a Service"
    if fault := _type_fault("service", service, _SERVICE_TYPES) or _seconds_fault(service):
        return fault
    if service.restart not in get_args(Restart):
        return f"has a service '{service.name}' with restart {service.restart!r}"
    if any(_unfit(text) for text in (service.name, service.script, service.probe or "")):
        return "has a service with NUL or half a character in it"
    if service.address is not None and ("\0" in service.address or _unfit(service.address)):
        return f"has a service '{service.name}' whose address has a secret, NUL or half a character in it"
    return None


def _seconds_fault(service: Service) -> str | None:
    for name in ("ready_within", "linger"):
        seconds = getattr(service, name)
        if isinstance(seconds, bool) or not 0 <= seconds <= _MOST_SECONDS:  # NaN is not in between either
            return f"has a service whose {name} is {seconds}; expected seconds from 0 to {_MOST_SECONDS}"
    return None


def _mount_fault(mount: Any) -> str | None:
    if not isinstance(mount, Mount):
        return f"has a mount that is a {type(mount).__name__}, not a Mount"
    if fault := _type_fault("mount", mount, _MOUNT_TYPES):
        return fault
    if mount.kind not in get_args(MountKind):
        return f"has a mount of kind {mount.kind!r}; expected one of {', '.join(get_args(MountKind))}"
    if any(_unfit(text) or "\0" in text for text in (mount.path, mount.source, mount.sub_path)):
        return "has a mount with a secret, NUL or half a character in it"
    for what, path in (("path", mount.path), ("sub_path", f"/{mount.sub_path}")):
        if not path.startswith("/") or path == "/" * (what == "path") or ".." in path.split("/"):
            return f"has a mount with the {what} {path!r}; expected an absolute path without '..', not '/'"
    return None


def _secret_fault(name: Any) -> str | None:
    if not isinstance(name, str) or not name.isidentifier():
        return f"asks for a secret of the platform by {name!r}, which is no name"
    return None


def _rule_fault(rule: Any) -> str | None:
    if not isinstance(rule, Mapping):
        return f"has an exit rule that is a {type(rule).__name__}, not a mapping"
    try:
        text = json.dumps(rule, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"has an exit rule that is no JSON: {error}"
    if r"\u0000" in text or _unfit(text):
        return "has an exit rule with a secret, NUL or half a character in it"
    return None


def _warning_fault(warning: Any) -> str | None:
    if not isinstance(warning, str):
        return f"has a warning that is a {type(warning).__name__}, not text"
    return None


def _type_fault(what: str, value: Any, types: Mapping[str, type | tuple[type, ...]]) -> str | None:
    for name, type_ in types.items():
        field: Any = getattr(value, name)
        if not isinstance(field, type_):
            return f"has a {what} whose {name} is a {type(field).__name__}"
    return None


def _unfit(text: str) -> bool:
    """Whether no program can be given this text: a NUL that is not a placeholder's, or a lone surrogate."""
    return "\0" in show(text) or text.encode(errors="ignore").decode() != text
