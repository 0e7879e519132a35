"""OCI bundles as images: what Slurm is told of the container of a task (``srun --container``)."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pai_pod.engine import paths
from pai_runtime.engine import CannotRun
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.local import Bind

CONFIG: Final = "config.json"

_ROOT: Final = "rootfs"
_MOST_BYTES: Final = 1024 * 1024
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DIRECTORIES: Final = ("/tmp", "/dev/shm")  # noqa: S108 - those that other programs mount, too
_MADE: Final = frozenset(("/dev", "/proc", "/sys", "/tmp"))  # noqa: S108 - as above
_FLAGS: Final = {"nosuid": os.ST_NOSUID, "nodev": os.ST_NODEV, "noexec": os.ST_NOEXEC}
_FILES: Final = ("/etc/hosts", "/etc/resolv.conf")
_KERNEL: Final = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {
        "destination": "/dev/pts",
        "type": "devpts",
        "source": "devpts",
        "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
    },
)


def root_of(image: Path) -> Path:
    """Return the directory of an image that is the root of its file system."""
    return image / _ROOT if (image / CONFIG).exists() else image


def container(
    image: Path, work: str, bound: Sequence[Bind], oci_bundle: Path
) -> tuple[Sequence[str], Sequence[str]]:
    """Write a bundle for a task into the new directory `oci_bundle`.

    Return the options of ``srun``, and what precedes the command, as Slurm gives it the environment of the
    step only. Raises `CannotRun`.
    """
    try:
        variables = list(_variables(image))
        root = oci_bundle / _ROOT
        root.mkdir(0o700, parents=True)
        config = _config(work, [*_of_image(root_of(image), root), *_of_node(root_of(image)), *bound])
        (oci_bundle / CONFIG).write_text(json.dumps(config))
    except (OSError, ValueError) as error:
        raise CannotRun(f"cannot make a container of {image}: {error}") from None
    command = (f"{paths.TOOLS}/env", _PATH, *variables, f"HOME={work}")
    return (f"--container={oci_bundle}",), command


def _variables(image: Path) -> Iterator[str]:
    """Yield the variables of an image, with their values. Raises OSError and ValueError."""
    path = image / CONFIG
    if not path.exists():
        return
    with path.open("rb") as file:
        found = loads_untrusted(file.read(_MOST_BYTES))
    process = found.get("process") if isinstance(found, dict) else None
    for variable in process.get("env", ()) if isinstance(process, dict) else ():
        if isinstance(variable, str) and variable.partition("=")[0].isidentifier():
            yield variable


def _of_image(image: Path, root: Path) -> Iterator[Bind]:
    """Make a root with all that is in that of an image, and yield what is mounted there. Raises OSError.

    For Slurm 22.05, the root is in the bundle, whatever its configuration says; and it can be no link.
    """
    with os.scandir(image) as entries:
        for entry in entries:
            if entry.is_symlink():
                (root / entry.name).symlink_to(Path(entry.path).readlink())
            elif f"/{entry.name}" not in _MADE:
                yield Bind(entry.path, f"/{entry.name}", read_only=True)


def _of_node(image: Path) -> Iterator[Bind]:
    """Yield what a container shares with its node, as with other programs."""
    yield from (Bind(path, path) for path in _DIRECTORIES)
    yield Bind("/sys", "/sys", read_only=True)
    for path in _FILES:
        if Path(path).exists() and (image / path[1:]).exists():
            yield Bind(path, path, read_only=True)


def _config(work: str, bound: Sequence[Bind]) -> Mapping[str, Any]:
    return {
        "ociVersion": "1.0.2",
        "process": {"cwd": work, "args": ["false"], "user": {"uid": 0, "gid": 0}, "noNewPrivileges": True},
        "root": {"path": _ROOT, "readonly": True},
        "mounts": [*_KERNEL, *map(_mount, bound)],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("user", "mount", "pid")],
            "uidMappings": [{"containerID": 0, "hostID": os.geteuid(), "size": 1}],
            "gidMappings": [{"containerID": 0, "hostID": os.getegid(), "size": 1}],
        },
    }


def _mount(bound: Bind) -> Mapping[str, Any]:
    """Return a mount with the flags that its file system has, which no user may take away."""
    source = Path(bound.source)
    there = next(each for each in (source, *source.parents) if each.exists())  # the rest is made later
    flags = os.statvfs(there).f_flag
    kept = [name for name, flag in _FLAGS.items() if flags & flag]
    options = ["rbind", "rslave", "ro" if bound.read_only else "rw", *kept]
    return {"destination": bound.target, "type": "none", "source": bound.source, "options": options}
