"""The parameters of a use, checked beyond their schema."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pai_runtime.plugin import Task, Use, UserError, has_secret

NUMBERS_IN_A_KEY = {
    "ssh-rsa": 2,
    "ssh-dss": 4,
    "ssh-ed25519": 1,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519@openssh.com": 2,
    "sk-ecdsa-sha2-nistp256@openssh.com": 3,
}
"""The number of fields that follow the type in a public key, by type."""

MINUTES = 30.0
"""The default timeout of the barrier in minutes."""


@dataclass(frozen=True)
class Request:
    """The request of one use for ssh in a task.

    `job` says whether the tasks reach each other; `keys` are the users' that may log in. `barrier` names the
    roles that this task waits for, for at most `seconds`, and `waiting` those of them whose tasks wait too;
    both are empty in a task that does not wait. `warnings` say what was asked for and is not given.
    """

    job: bool
    keys: tuple[str, ...]
    barrier: tuple[str, ...]
    waiting: tuple[str, ...]
    seconds: float
    warnings: tuple[str, ...]


def read_request(use: Use, task: Task) -> Request:
    """Return the request in parameters that match the manifest's schema.

    Raises `UserError` if they are invalid.
    """
    parameters = use.parameters
    asked, barrier = _is_true(parameters, "jobssh"), _is_true(parameters, "sshbarrier")
    named = parameters.get("taskroles", task.instances)
    roles = tuple(role for role in use.plugin_roles if role in named)
    waits = asked and task.gang and barrier and task.role in roles
    warnings = []
    if asked and not task.gang:
        warnings.append("jobssh is off, because with gangAllocation: false tasks need not live together")
    elif barrier and not asked:
        warnings.append("sshbarrier is off, because it needs jobssh: true")
    if without := [role for role in named if role not in roles]:
        if "taskroles" in parameters:
            known = ", ".join(use.plugin_roles)
            raise UserError(f"taskroles: expected roles with ssh, found {', '.join(without)}; known: {known}")
        if waits:
            warnings.append(f"sshbarrier does not wait for task roles without ssh: {', '.join(without)}")
    return Request(
        job=asked and task.gang,
        keys=tuple(_keys(parameters)),
        barrier=roles if waits else (),
        waiting=tuple(role for role in use.roles if role in roles) if waits else (),
        seconds=60 * parameters.get("sshbarrierTimeout", MINUTES),
        warnings=tuple(warnings),
    )


def public_keys(text: str, where: str) -> Iterator[str]:
    """Yield the public keys in a text, one per line.

    Raises `UserError`, without the text, which may be a secret.
    """
    for number, line in enumerate(text.splitlines(), 1):
        match line.split():
            case []:
                pass
            case [kind, encoded, *_] if _kind_within(encoded) == kind:
                yield line.strip()
            case _:
                message = "is damaged, or no public key; copy the whole line of its .pub file"
                raise UserError(f"{where}: line {number} {message}")


def _keys(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the users' keys that are known; while the plan is made, those in secrets are not."""
    user = parameters.get("userssh") or {}
    texts = {f"publicKeys[{number}]": text for number, text in enumerate(parameters.get("publicKeys") or ())}
    if user.get("type") != "none":
        texts = {"userssh.value": user.get("value"), **texts}
    for where, text in texts.items():
        if text and not has_secret(text):
            yield from public_keys(text, where)


def _is_true(parameters: Mapping[str, Any], name: str) -> bool:
    return parameters.get(name) in (True, "true")


def _kind_within(encoded: str) -> str | None:
    """Return the type that an encoded key contains; None if the key is incomplete."""
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    fields = []
    while blob:
        size = int.from_bytes(blob[:4], "big")
        field, blob = blob[4 : 4 + size], blob[4 + size :]
        if len(field) < size or not size:
            return None
        fields.append(field)
    kind = fields[0].decode("ascii", "replace") if fields else ""
    return kind if len(fields) - 1 == NUMBERS_IN_A_KEY.get(kind) else None
