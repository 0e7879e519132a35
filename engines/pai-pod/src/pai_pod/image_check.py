"""The image check: whether the image of a task exists, before its container waits for it.

Only what is certain fails a task. All else is a warning: the node that pulls the image may have it already,
may use a mirror, or credentials of its own.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from pai_document.printable import printable
from pai_network.deadline import Deadline
from pai_pod.image_reference import DOCKER_HUB, BadReference, ImageReference, parse_reference
from pai_pod.registry import Credentials, ImageQuestion, Refused, Unclear
from pai_runtime.plugin.backoff import backoff
from pai_task.record import record

Outcome = Literal["exists", "missing", "unknown"]

SECONDS: Final = 60.0
"""Timeout of the whole check in seconds."""
ATTEMPT_SECONDS: Final = 15.0
"""Timeout of one attempt in seconds, so that an unreachable registry does not use up all of it."""
REFUSALS: Final = 3
"""Number of refused credentials that count as certain, since registries send some 401 without reason."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
_DOCKER_HUB_HOSTS = ("docker.io", "index.docker.io")
_REGISTRY_URI = re.compile("(?:[a-z]+://)?([^/]*)(?:/v[12](?=/|$))?/?(.*?)/?", re.IGNORECASE | re.DOTALL)


@record(frozen=True)
class ImageVerdict:
    """The verdict about an image: ``missing`` only if certain; `message` is for the job's author."""

    outcome: Outcome
    message: str


def check_image(
    uri: str, auth: Mapping[str, Any] | None, deadline: Deadline, say: Callable[[str], None]
) -> ImageVerdict:
    """Ask the image's registry whether it exists, with retries as long as they may help, until the deadline.

    `auth` is that of the job, with the password in it.
    """
    try:
        image = parse_reference(uri)
    except BadReference as error:
        return ImageVerdict("missing", str(error))
    credentials, unused = credentials_for(image, auth or {})
    if unused:
        say(f"image {image}: {unused}")
    attempts = refusals = 0
    while True:
        attempts += 1
        left = Deadline(min(ATTEMPT_SECONDS, deadline.left())).left
        try:
            return _certain(image, exists=ImageQuestion(image, credentials, left).exists())
        except Unclear as error:
            refusals += isinstance(error, Refused)
            if refusals == REFUSALS:
                return _refused(image, str(error))
            if error.again is None:
                return _unknown(image, str(error))
            pause = error.again + backoff(attempts, _FIRST_PAUSE, _LONGEST_PAUSE)
            if pause >= deadline.left():
                return _unknown(image, f"{error}, in {attempts} attempts")
            say(f"image {image}: retrying in {pause:.1f} s: {error}")
        deadline.wait(pause)


def credentials_for(image: ImageReference, auth: Mapping[str, Any]) -> tuple[Credentials | None, str]:
    """Return the credentials in a job's ``auth`` for the image's registry; if there are none, the reason.

    They apply as on the nodes that pull the image: without a ``registryuri`` they are for Docker Hub, and one
    with a path is for the repositories below it.
    """
    if not auth:
        return None, ""
    username, password = auth.get("username"), auth.get("password")
    if not (isinstance(username, str) and username and isinstance(password, str) and password):
        return None, "its auth is not used: expected a username and a password"
    registry, path = _registry_of(str(auth.get("registryuri") or DOCKER_HUB))
    if registry == image.registry.lower() and image.repository.startswith(path):
        return Credentials(username, password), ""
    return None, (
        f"its auth is not used: that is for {printable(f'{registry}/{path}')} (without registryuri, for"
        f" {DOCKER_HUB}), but the image is in {image.registry}"
    )


def _registry_of(uri: str) -> tuple[str, str]:
    """Return the registry and the path in it that a ``registryuri``, a URL or host with port, means."""
    match = _REGISTRY_URI.fullmatch(uri)
    host, path = (match[1].rpartition("@")[2].lower(), match[2]) if match else ("", "")
    return (DOCKER_HUB if host in _DOCKER_HUB_HOSTS else host), path


def _certain(image: ImageReference, *, exists: bool) -> ImageVerdict:
    if exists:
        return ImageVerdict("exists", f"image {image} exists")
    return ImageVerdict(
        "missing",
        f"image {image} does not exist: the registry {image.registry} has no such image."
        " Correct the uri of the job's dockerimage, or push the image",
    )


def _refused(image: ImageReference, reason: str) -> ImageVerdict:
    return ImageVerdict(
        "missing",
        f"image {image} cannot be pulled: the registry {image.registry} denies it to the user in its auth"
        f" ({reason}, {REFUSALS} times). Correct the username and password, or the name of the image, or"
        " allow this user to pull it",
    )


def _unknown(image: ImageReference, reason: str) -> ImageVerdict:
    return ImageVerdict(
        "unknown",
        f"image {image}: cannot tell from the registry {image.registry} whether it exists: {reason}."
        " The task starts if the node can pull the image",
    )
