"""The programs that run a task in its image, as the beginnings of command lines."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pai_pod.engine import PIPED, paths
from pai_runtime.engine import CannotRun
from pai_runtime.engine.classes import record
from pai_runtime.engine.local import WORK, Bind, Folder
from pai_slurm import oci
from pai_slurm.images import CHARLIECLOUD, OCI, PYXIS, Images

_CH_RUN: Final = "ch-run"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT: Final = "ch/environment"
_SEPARATORS: Final = frozenset(":,")


@record(frozen=True)
class Contained:
    """How a step gets into the image of its task: more options of ``srun``, and what precedes its command."""

    options: Sequence[str]
    command: Sequence[str]


def contained(
    images: Images, image: str, folder: str, storages: Sequence[Bind], *, gpu: bool, oci_bundle: Path
) -> Contained:
    """Return how the step of the task in a folder gets into an image, with its storages and the bundle.

    For Slurm's own containers, an OCI bundle is written into the new directory `oci_bundle`. Raises
    `CannotRun`.
    """
    own = Bind(images.bundle, paths.BUNDLE, read_only=True), Bind(folder, paths.TASK_FOLDER)
    bound = [*own, *storages]
    for each in bound:
        if _SEPARATORS & {*each.source, *each.target}:
            raise CannotRun(f"cannot mount {each.source} at {each.target}: no ':' or ',' can be in its path")
    work = f"{paths.TASK_FOLDER}/{WORK}"
    if images.program == PYXIS:
        mounts = ",".join(map(_pair, bound))
        options = (f"--container-image={image}", f"--container-mounts={mounts}")
        return Contained((*options, f"--container-workdir={work}", "--no-container-mount-home"), ())
    if images.program == OCI:
        if Path(image).is_dir():
            _make_mount_points(oci.root_of(Path(image)), bound)
        return Contained(*oci.container(Path(image), work, bound, oci_bundle))
    if images.program == CHARLIECLOUD:
        return Contained((), _charliecloud(image, work, bound))
    binds = [f"--bind={_pair(each)}" for each in bound]
    command = (_found(images.program), "--quiet", "exec", "--no-home", f"--pwd={work}", *binds)
    return Contained((), (*command, *(["--nv"] if gpu else []), image))


def image_supervisor_argv(options: str) -> Sequence[str]:
    """Return the command that supervises a task in its image, with the bundle, and with launch options."""
    launcher = f"{paths.BUNDLE}/{Path(paths.LAUNCHER).name}"
    return (launcher, PIPED, paths.TASK_FOLDER, options)


def _pair(bound: Bind) -> str:
    return f"{bound.source}:{bound.target}{':ro' if bound.read_only else ''}"


def _charliecloud(image: str, work: str, bound: Sequence[Bind]) -> Sequence[str]:
    argv = [_found(_CH_RUN), f"--cd={work}", f"--set-env=PATH={_PATH}"]
    if not Path(image).is_dir() or Path(image, _ENVIRONMENT).exists():
        argv.append("--set-env")  # as the image has them
    argv.append(f"--set-env=HOME={work}")
    if Path(image).is_dir():
        _make_mount_points(Path(image), bound)
    return (*argv, *(f"--bind={each.source}:{each.target}" for each in bound), image, "--")


def _make_mount_points(image: Path, bound: Sequence[Bind]) -> None:
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
