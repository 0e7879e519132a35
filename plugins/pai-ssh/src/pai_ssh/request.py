"""What a use asks for, checked as far as the parameters' schema cannot."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pai_runtime.plugin import Task, Use, UserError

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
"""How many fields follow the name of its type in a public key."""

MINUTES = 10.0
"""How long the barrier waits if nobody says so."""


@dataclass(frozen=True)
class Request:
    """What one use wants of ssh in a task.

    `job` says whether the tasks reach each other, `keys` whose users come in. `barrier` names the roles whose
    tasks wait for each other, for `seconds` at most; it is empty in a task that waits for nobody. `warnings`
    say what was asked for and is not given.
    """

    job: bool
    keys: tuple[str, ...]
    barrier: tuple[str, ...]
    seconds: float
    warnings: tuple[str, ...]


def read_request(use: Use, task: Task) -> Request:
    """What parameters that fit the manifest's schema ask for; raises `UserError`."""
    parameters = use.parameters
    asked, barrier = _is_true(parameters, "jobssh"), _is_true(parameters, "sshbarrier")
    roles = parameters.get("taskroles", use.roles)
    if strangers := [role for role in roles if role not in use.roles]:
        message = f"taskroles: {', '.join(strangers)} without this use; known: {', '.join(use.roles)}"
        raise UserError(message)
    warnings = []
    if asked and not task.gang:
        warnings.append("jobssh is off, because with gangAllocation: false tasks need not live together")
    elif barrier and not asked:
        warnings.append("sshbarrier is off, because it needs jobssh: true")
    job = asked and task.gang
    return Request(
        job=job,
        keys=tuple(_keys(parameters)),
        barrier=tuple(role for role in use.roles if role in roles)
        if job and barrier and task.role in roles
        else (),
        seconds=60 * parameters.get("sshbarrierTimeout", MINUTES),
        warnings=tuple(warnings),
    )


def public_keys(text: str) -> Iterator[str]:
    """The public keys in a text, one a line; raises `UserError`."""
    for line in filter(None, map(str.strip, text.splitlines())):
        kind, encoded, *_ = line.split()
        if _kind_within(encoded) != kind:
            shown = f"{kind} {encoded[:20]}…"
            raise UserError(f"the public key '{shown}' is damaged; copy the whole line of its .pub file")
        yield line


def _keys(parameters: Mapping[str, Any]) -> Iterator[str]:
    user = parameters.get("userssh", {})
    if user.get("type", "custom") != "none":
        yield from public_keys(user.get("value", ""))
    for text in parameters.get("publicKeys") or ():
        yield from public_keys(text)


def _is_true(parameters: Mapping[str, Any], name: str) -> bool:
    return parameters.get(name) in (True, "true")


def _kind_within(encoded: str) -> str | None:
    """The type that a key says itself that it has; None if it is not a whole key."""
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
