"""The images of a job's tasks, and the credentials to pull them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pai_pod.image_check import credentials_for
from pai_pod.image_reference import BadReference, ImageReference, parse_reference
from pai_pod.registry import Credentials
from pai_runtime.engine import InvalidInput, Job, Location, Problems
from pai_runtime.engine.jobs import JobImage, JobImages
from pai_runtime.plugin import has_secret


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
    found, made = JobImages(job, problems), dict[str, TaskImage]()
    images = {}
    for name, role in job.roles.items():
        image = found.of(role)
        if image is None or role.docker_image is None:
            message = "has no dockerImage, and in a container each task needs one"
            problems.add(role.value.problem("no-image", message))
            continue
        own = role.docker_image.text
        images[name] = made[own] = made.get(own) or _task_image(image, secrets, problems)
    problems.check()
    return images


def _task_image(image: JobImage, secrets: Mapping[str, str], problems: Problems) -> TaskImage:
    where, uri = image.value.at(("uri",)), str(image.uri)
    if has_secret(uri):
        message = "contains a secret, but which image is pulled is for all to see; use auth for the login"
        problems.add(where.problem("secret-in-image", message))
        return TaskImage("", where, None, None)
    try:
        reference = parse_reference(uri)
    except BadReference as error:
        raise InvalidInput([where.problem("wrong-image", str(error))]) from None
    return TaskImage(uri, where, reference, credentials_for(reference, image.filled(secrets).auth)[0])
