"""Placement of the bundle and its launcher on the volume that both containers of a pod share.

It is copied aside and renamed, so that a crash leaves all of it or nothing. What an earlier execution has
left there is replaced, since a task could have changed it; only a bundle that is mounted is used as it is.
"""

import errno
import json
import os
from pathlib import Path
from typing import Any, Final

from pai_runtime.task.bundle import CONTENTS, LAUNCHER, PREFIX
from pai_runtime.task.folder import Folder

# With pathlib, copying thousands of files would take twice as long.
# ruff: noqa: PTH101, PTH102, PTH112, PTH114, PTH115, PTH119, PTH208, PTH211

_BUNDLE, _LAUNCHER = (os.path.basename(path) for path in (PREFIX, LAUNCHER))
_ASIDE: Final = ".bundle.part"
_MOST_BYTES: Final = 1024 * 1024


def place_bundle(source: Path, volume: Path) -> None:
    """Copy the bundle in `source` to the volume, with its launcher beside it. Raises OSError.

    If a bundle is mounted there, it has to be the same one.
    """
    with Folder.at(source) as bundle, Folder.at(volume) as folder:
        expected = _digest(bundle)
        _check_executable(folder)
        if _is_mounted(folder):
            with folder.folder(_BUNDLE) as mounted:
                _check_executable(mounted)
                if _mounted_digest(mounted) != expected:
                    raise OSError(
                        errno.ESTALE,
                        f"expected the bundle of {source}, found another one mounted; use one image for both",
                        mounted.where,
                    )
        else:
            _replace(source, folder, _BUNDLE)
        _replace(source / _LAUNCHER, folder, _LAUNCHER)


def _digest(bundle: Folder) -> str:
    """Return the digest that identifies a bundle. Raises OSError if there is no bundle."""
    try:
        contents: Any = json.loads(bundle.read(CONTENTS, _MOST_BYTES))
        digest: str = contents["digest"]
    except (ValueError, TypeError, KeyError):
        raise OSError(
            errno.EINVAL, "this is not the file of a bundle", f"{bundle.where}/{CONTENTS}"
        ) from None
    return digest


def _check_executable(place: Folder) -> None:
    """Raise OSError where programs cannot be executed: the task container would not even start."""
    if os.fstatvfs(place.fd).f_flag & os.ST_NOEXEC:
        raise OSError(
            errno.EACCES,
            "expected a file system from which programs can be executed, found one that the node has mounted"
            " with noexec",
            place.where,
        )


def _mounted_digest(bundle: Folder) -> str:
    """Return the digest of a mounted bundle. Raises OSError with advice if it is missing."""
    try:
        return _digest(bundle)
    except FileNotFoundError:
        # Older ones say nothing: they mount the whole image, or an empty directory.
        message = (
            "expected the bundle to be mounted there, found none; the container runtime has to know image"
            " volumes with a subPath, as containerd 2.2, CRI-O 1.33 and later do; or set delivery to copy"
        )
        raise OSError(errno.ENOENT, message, bundle.where) from None


def _is_mounted(volume: Folder) -> bool:
    """Return whether the bundle there is on a file system of its own, or read-only."""
    try:
        with volume.folder(_BUNDLE) as found:
            is_other = os.fstat(found.fd).st_dev != os.fstat(volume.fd).st_dev
            return is_other or bool(os.fstatvfs(found.fd).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _replace(source: Path, volume: Folder, name: str) -> None:
    """Copy a file or directory to a name that always has all of it or nothing."""
    volume.remove(_ASIDE)
    if volume.exists(name):
        volume.move(name, volume, _ASIDE)
        volume.remove(_ASIDE)
    try:
        _copy(os.fspath(source), f"{volume.where}/{_ASIDE}")
        volume.move(_ASIDE, volume, name)
    except OSError:
        volume.remove(_ASIDE)
        raise


def _copy(source: str, target: str) -> None:
    """Copy installed files to a new name, with their permissions."""
    if os.path.islink(source):
        try:
            os.symlink(os.readlink(source), target)
        except OSError as error:
            error.filename = target  # not where it leads to
            raise
    elif os.path.isdir(source):
        os.mkdir(target)
        os.chmod(target, 0o755)  # noqa: S103 - the task is any user
        for name in os.listdir(source):
            _copy(f"{source}/{name}", f"{target}/{name}")
    else:
        _copy_file(source, target)


def _copy_file(source: str, target: str) -> None:
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(read)
        written = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        try:
            os.fchmod(written, status.st_mode & 0o755)
            left = status.st_size
            while left > 0 and (count := os.sendfile(written, read, None, left)):
                left -= count
        except OSError as error:
            error.filename = target
            raise
        finally:
            os.close(written)
    finally:
        os.close(read)
