"""The images of a job's tasks on this machine: which are there, and the pull of those that are not."""

import json
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from pai_container.client import Client, ProgramFailed
from pai_pod.engine import DOCKER_HUB, TaskImage
from pai_runtime.engine import CannotRun

_DOCKER_HUB = "https://index.docker.io/v1/"


def available_images(
    client: Client, images: Mapping[str, TaskImage], say: Callable[[str], None]
) -> dict[str, str]:
    """Return what the program calls the image of each task role, after a pull if it is not here.

    Raises `CannotRun` for one that cannot be pulled.
    """
    found: dict[str, str] = {}
    for image in images.values():
        if image.uri not in found:
            found[image.uri] = image.uri if _is_here(client, image.uri) else _pulled(client, image, say)
    return {role: found[image.uri] for role, image in images.items()}


def _is_here(client: Client, name: str) -> bool:
    try:
        client.call("image", "inspect", "--format={{.Id}}", name)
    except ProgramFailed:
        return False
    return True


def _pulled(client: Client, image: TaskImage, say: Callable[[str], None]) -> str:
    name = str(image.reference)
    if _is_here(client, name):
        return name
    say(f"note: pulling {name}")
    try:
        with TemporaryDirectory() as folder:
            login = _login(client, image, Path(folder))
            client.call("pull", "--quiet", name, seconds=None, environment=login)
    except ProgramFailed as error:
        position, field = image.where.position, image.where.field
        what = f"the image {name} is not on this machine, and {client.kind} cannot pull it"
        raise CannotRun(f"{position}: {field}: {what}: {error}") from None
    return name


def _login(client: Client, image: TaskImage, folder: Path) -> dict[str, str]:
    """Return the variables for a pull with the job's own credentials, which are in a file for the moment."""
    if image.credentials is None or image.reference is None:
        return {}
    pair = f"{image.credentials.username}:{image.credentials.password}"
    is_hub = image.reference.registry == DOCKER_HUB
    key = _DOCKER_HUB if is_hub and client.kind == "docker" else image.reference.registry
    login = {"auths": {key: {"auth": b64encode(pair.encode()).decode()}}}
    file = folder / "config.json"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        json.dump(login, opened)
    return {"DOCKER_CONFIG": str(folder)} if client.kind == "docker" else {"REGISTRY_AUTH_FILE": str(file)}
