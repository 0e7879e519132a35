"""The images of tasks: by which program they are run, and where they are."""

from pathlib import Path
from typing import Final

from pai_runtime.engine import Job, Problems
from pai_runtime.engine.classes import record

PYXIS: Final = "pyxis"
CHARLIECLOUD: Final = "charliecloud"
OCI: Final = "oci"
_ENDINGS: Final = {
    "apptainer": ("", ".sif"),
    "singularity": ("", ".sif"),
    CHARLIECLOUD: ("", ".sqfs"),
    OCI: ("",),
    PYXIS: ("", ".sqsh"),
}
"""What the name of an image's file or directory may end with, by the program."""


@record(frozen=True)
class Images:
    """How images are run: by which program, the directory they are in, if any, and the bundle for them."""

    program: str
    folder: str = ""
    bundle: str = ""

    @property
    def can_mount_read_only(self) -> bool:
        """Whether the program can mount a directory so that the task cannot write to it."""
        return self.program != CHARLIECLOUD


def _file_of(images: Images, uri: str) -> str:
    """Return the name of the file or directory in which an image is expected, as Charliecloud names them."""
    return str(Path(images.folder, uri.replace("/", "%").replace(":", "+"))) if images.folder else ""


def image_of(images: Images, uri: str) -> str:
    """Return what the program calls an image; empty if it is not there, and the program cannot pull it."""
    name = _file_of(images, uri)
    for ending in _ENDINGS[images.program] if name else ():
        if Path(name + ending).exists():
            return name + ending
    if images.program in (CHARLIECLOUD, OCI):
        return ""
    registry, slash, rest = uri.partition("/")
    if images.program == PYXIS:
        return f"{registry}#{rest}" if slash and not registry.isalnum() else uri
    return f"docker://{uri}"


def role_images(job: Job, images: Images, problems: Problems) -> dict[str, str]:
    """Return what the program calls the image of each task role; those that are not there are problems."""
    from pai_pod.engine import task_images  # noqa: PLC0415 - only what is used is imported

    found: dict[str, str] = {}
    with problems.caught():
        for role, image in task_images(job, {}).items():
            found[role] = image_of(images, image.uri)
            if not found[role]:
                expected = _file_of(images, image.uri) or "'folder' of 'images' in the engine profile"
                message = f"this image is not there; expected {expected}"
                problems.add(image.where.problem("no-image", message, found=image.uri))
    return found
