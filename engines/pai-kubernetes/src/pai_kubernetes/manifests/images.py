"""The images of a job's tasks, and the credentials to pull them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pai_pod.engine import BadReference, Credentials, ImageReference, credentials_for, parse_reference
from pai_runtime.engine import InvalidInput, Job, Location, Problems, TaskRole
from pai_runtime.job.references import References, Renderer
from pai_runtime.plugin import has_secret
from pai_runtime.task.placeholders import fill


@dataclass(frozen=True)
class TaskImage:
    """An image as the job writes it, its location there, and the credentials for it, if it needs any."""

    uri: str
    where: Location
    reference: ImageReference | None
    credentials: Credentials | None


def task_images(job: Job, secrets: Mapping[str, str]) -> dict[str, TaskImage]:
    """Return the image of each task role; `secrets` are values by their paths. Raises `InvalidInput`."""
    problems = Problems()
    references, made = References(job, problems), dict[str, TaskImage]()
    images = {}
    for name, role in job.roles.items():
        if role.docker_image is None:
            message = "has no dockerImage, and on a cluster each task needs one"
            problems.add(role.value.problem("no-image", message))
            continue
        image = role.docker_image.text
        made[image] = made.get(image) or _image(references, role, secrets)
        images[name] = made[image]
    problems.check()
    return images


def _image(references: References, role: TaskRole, secrets: Mapping[str, str]) -> TaskImage:
    name = role.docker_image.text if role.docker_image else ""
    prerequisite = references.job.prerequisites[name, "dockerimage"]
    rendered: dict[str, Any] = Renderer(references, prerequisite=prerequisite).data(prerequisite.value)
    where, uri = prerequisite.value.at(("uri",)), str(rendered.get("uri"))
    if has_secret(uri):
        value = prerequisite.value.get("uri") or prerequisite.value
        message = "contains a secret, but which image is pulled is for all to see; use auth for the login"
        references.problems.add(value.problem("secret-in-image", message))
        return TaskImage("", where, None, None)
    try:
        reference = parse_reference(uri)
    except BadReference as error:
        raise InvalidInput(
            [(prerequisite.value.get("uri") or prerequisite.value).problem("wrong-image", str(error))]
        ) from None
    auth = fill(rendered.get("auth") or {}, secrets)
    return TaskImage(uri, where, reference, credentials_for(reference, auth)[0])
