"""Validation of a contribution: types, ranges and characters, for values of any type."""

import json
from collections.abc import Mapping, Sequence
from posixpath import normpath
from typing import Any, Final, get_args

from pai_runtime.plugin.contribution import Contribution, ShellStep
from pai_runtime.plugin.errors import UserError
from pai_task.exit_codes import MOST_CODE
from pai_task.placeholders import has_secret, show
from pai_task.plan import EVENTS, Mount, Service
from pai_task.vocabulary import FailurePolicy, MountKind, Restart

_MOST_SECONDS: Final = 1_000_000_000


def check_step(step: ShellStep) -> None:
    """Raise TypeError or ValueError if a field of a step is invalid."""
    _check_word("ShellStep.event", step.event, EVENTS)
    _check_text("ShellStep.script", step.script)
    if step.failure_policy is not None:
        _check_word("ShellStep.failure_policy", step.failure_policy, get_args(FailurePolicy))


def check_contribution(contribution: Contribution) -> None:
    """Raise TypeError or ValueError if a contribution is invalid, `UserError` if it contains a secret."""
    _check_type("Contribution.environment", contribution.environment, Mapping, "a mapping")
    for name, value in contribution.environment.items():
        _check_variable(name, value)
    for step in _listed("steps", contribution.steps):
        _check_type("Contribution.steps", step, ShellStep, "a list of ShellStep")
    for service in _listed("services", contribution.services):
        _check_service(service)
    for mount in _listed("mounts", contribution.mounts):
        _check_mount(mount)
    for name in _listed("secrets", contribution.secrets):
        _check_secret(name)
    for rule in _listed("exit_rules", contribution.exit_rules):
        _check_rule(rule)
    for warning in _listed("warnings", contribution.warnings):
        _check_type("Contribution.warnings", warning, str, "a list of strings")
    _check_codes(contribution.permanent_codes)


def _listed(name: str, values: Any) -> Sequence[Any]:
    return _listed_in(f"Contribution.{name}", values)


def _listed_in(name: str, values: Any) -> Sequence[Any]:
    _check_type(name, values, (list, tuple), "a list")
    checked: Sequence[Any] = values
    return checked


def _check_variable(name: Any, value: Any) -> None:
    field = f"Contribution.environment[{name!r}]"
    _check_type(field, name, str, "a string as the name")
    if not name or "=" in name or "\0" in name or _has_surrogate(name):
        raise ValueError(f"{field}: expected the name of a variable")
    _check_text(field, value)


def _check_service(service: Any) -> None:
    _check_type("Contribution.services", service, Service, "a list of Service")
    for name in ("name", "script", "probe", "address"):
        value = getattr(service, name)
        if value is not None or name in ("name", "script"):
            _check_text(f"Service.{name}", value, with_secrets=name != "address")
    for name in ("ready_within", "linger", "when_silent"):
        seconds, expected = getattr(service, name), f"seconds from 0 to {_MOST_SECONDS}"
        _check_type(f"Service.{name}", seconds, (int, float), expected)
        if isinstance(seconds, bool) or not 0 <= seconds <= _MOST_SECONDS:  # NaN is not in between either
            raise ValueError(f"Service.{name}: expected {expected}, found {seconds}")
    for argument in _listed_in("Service.ancestor", service.ancestor):
        _check_text("Service.ancestor", argument, with_secrets=False)
    if service.ancestor and not service.when_silent:
        raise ValueError("Service.ancestor: expected when_silent with it")
    _check_word("Service.restart", service.restart, get_args(Restart))
    _check_type("Service.required", service.required, bool, "True or False")
    if service.when_silent and (service.required or service.probe is not None):
        raise ValueError(
            "Service.when_silent: expected neither required nor a probe: it may never be started"
        )


def _check_mount(mount: Any) -> None:
    _check_type("Contribution.mounts", mount, Mount, "a list of Mount")
    for name in ("path", "source", "sub_path"):
        _check_text(f"Mount.{name}", getattr(mount, name), with_secrets=False)
    _check_word("Mount.kind", mount.kind, get_args(MountKind))
    _check_type("Mount.read_only", mount.read_only, bool, "True or False")
    if mount.path != "/" + normpath(mount.path).lstrip("/") or mount.path == "/":
        expected = "a normalised absolute path other than '/'"
        raise ValueError(f"Mount.path: expected {expected}, found {mount.path!r}")
    if ".." in mount.sub_path.split("/"):
        raise ValueError(f"Mount.sub_path: expected a path without '..', found {mount.sub_path!r}")


def _check_secret(name: Any) -> None:
    _check_type("Contribution.secrets", name, str, "a list of names")
    if not name.isidentifier():
        raise ValueError(
            f"Contribution.secrets: expected the name of a secret of the platform, found {name!r}"
        )


def _check_rule(rule: Any) -> None:
    _check_type("Contribution.exit_rules", rule, Mapping, "a list of mappings")
    try:
        text = json.dumps(rule, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"Contribution.exit_rules: expected JSON data: {error}") from None
    if r"\u0000" in text or _has_surrogate(text):
        raise ValueError("Contribution.exit_rules: expected no secret, NUL or unpaired surrogate")


def _check_codes(codes: Any) -> None:
    _check_type("Contribution.permanent_codes", codes, (list, tuple, set, frozenset), "a list or a set")
    for code in codes:
        if type(code) is not int or not 1 <= code <= MOST_CODE:
            raise ValueError(f"Contribution.permanent_codes: expected 1 to {MOST_CODE}, found {code!r}")


def _check_type(field: str, value: Any, kind: Any, expected: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{field}: expected {expected}, found {type(value).__name__}")


def _check_word(field: str, value: Any, words: Sequence[str]) -> None:
    if value not in words:
        raise ValueError(f"{field}: expected one of {', '.join(words)}, found {value!r}")


def _check_text(field: str, value: Any, *, with_secrets: bool = True) -> None:
    """Raise ValueError for text that no program can take: a NUL outside a placeholder, a lone surrogate."""
    _check_type(field, value, str, "text")
    if "\0" in show(value) or _has_surrogate(value):
        raise ValueError(f"{field}: expected a string without NUL or unpaired surrogates")
    if has_secret(value) and not with_secrets:
        message = "cannot hold a secret: it has to be known before the task starts"
        raise UserError(f"{field}: {show(value)} {message}")


def _has_surrogate(text: str) -> bool:
    return text.encode(errors="ignore").decode() != text
