"""The programs that run a task in its image, as the beginnings of command lines."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pai_pod.engine import paths
from pai_runtime.engine import CannotRun, Job, Problems
from pai_runtime.engine.local import WORK, Folder

PYXIS: Final = "pyxis"
_CHARLIECLOUD: Final = "charliecloud"
_CH_RUN: Final = "ch-run"
_ENDINGS: Final = {
    "apptainer": ("", ".sif"),
    "singularity": ("", ".sif"),
    _CHARLIECLOUD: ("", ".sqfs"),
    PYXIS: ("", ".sqsh"),
}
"""What the name of an image's file or directory may end with, by the program."""
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT: Final = "ch/environment"
_SEPARATORS: Final = frozenset(":,")


@dataclass(frozen=True)
class Images:
    """How images are run: by which program, the directory they are in, if any, and the bundle for them."""

    program: str
    folder: str = ""
    bundle: str = ""

    @property
    def can_mount_read_only(self) -> bool:
        """Whether the program can mount a directory so that the task cannot write to it."""
        return self.program != _CHARLIECLOUD


@dataclass(frozen=True)
class Bound:
    """A directory of the shared file system, and its path in the image."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Contained:
    """How a step gets into the image of its task: more options of ``srun``, and what precedes its command."""

    options: Sequence[str]
    command: Sequence[str]


def _file_of(images: Images, uri: str) -> str:
    """Return the name of the file or directory in which an image is expected, as Charliecloud names them."""
    return str(Path(images.folder, uri.replace("/", "%").replace(":", "+"))) if images.folder else ""


def image_of(images: Images, uri: str) -> str:
    """Return what the program calls an image; empty if it is not there, and the program cannot pull it."""
    name = _file_of(images, uri)
    for ending in _ENDINGS[images.program] if name else ():
        if Path(name + ending).exists():
            return name + ending
    if images.program == _CHARLIECLOUD:
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


def contained(images: Images, image: str, folder: str, storages: Sequence[Bound], *, gpu: bool) -> Contained:
    """Return how the step of the task in a folder gets into an image, with its storages and the bundle.

    Raises `CannotRun`.
    """
    own = Bound(images.bundle, paths.BUNDLE, read_only=True), Bound(folder, paths.TASK_FOLDER)
    bound = [*own, *storages]
    for each in bound:
        if _SEPARATORS & {*each.source, *each.target}:
            raise CannotRun(f"cannot mount {each.source} at {each.target}: no ':' or ',' can be in its path")
    work = f"{paths.TASK_FOLDER}/{WORK}"
    if images.program == PYXIS:
        mounts = ",".join(map(_pair, bound))
        options = (f"--container-image={image}", f"--container-mounts={mounts}")
        return Contained((*options, f"--container-workdir={work}", "--no-container-mount-home"), ())
    if images.program == _CHARLIECLOUD:
        return Contained((), _charliecloud(image, work, bound))
    binds = [f"--bind={_pair(each)}" for each in bound]
    command = (_found(images.program), "--quiet", "exec", "--no-home", f"--pwd={work}", *binds)
    return Contained((), (*command, *(["--nv"] if gpu else []), image))


def image_supervisor_argv(options: str) -> Sequence[str]:
    """Return the command that supervises a task in its image, with the bundle, and with launch options."""
    from pai_pod.engine import PIPED  # noqa: PLC0415 - only what is used is imported

    launcher = f"{paths.BUNDLE}/{Path(paths.LAUNCHER).name}"
    return (launcher, PIPED, paths.TASK_FOLDER, options)


def _pair(bound: Bound) -> str:
    return f"{bound.source}:{bound.target}{':ro' if bound.read_only else ''}"


def _charliecloud(image: str, work: str, bound: Sequence[Bound]) -> Sequence[str]:
    argv = [_found(_CH_RUN), f"--cd={work}", f"--set-env=PATH={_PATH}"]
    if not Path(image).is_dir() or Path(image, _ENVIRONMENT).exists():
        argv.append("--set-env")  # as the image has them
    argv.append(f"--set-env=HOME={work}")
    if Path(image).is_dir():
        _make_mount_points(Path(image), bound)
    return (*argv, *(f"--bind={each.source}:{each.target}" for each in bound), image, "--")


def _make_mount_points(image: Path, bound: Sequence[Bound]) -> None:
    """Make the directories that Charliecloud mounts something at, and does not make itself."""
    umask = os.umask(0o022)  # for all who use the image
    try:
        with Folder.at(image) as folder:
            for each in bound:
                folder.make(each.target.lstrip("/"))
    except OSError as error:
        needed = " ".join(each.target for each in bound)
        raise CannotRun(
            f"cannot make mount points in the image {image}: {error.strerror}; it needs {needed}"
        ) from None
    finally:
        os.umask(umask)


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise CannotRun(f"there is no {program} on this node, and the engine profile runs images by it")
    return path
