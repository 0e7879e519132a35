"""Putting the bundle and its launcher on the volume that both containers of a pod share.

It is copied aside and renamed, so that a crash leaves all of it or nothing. What an earlier execution has
left there is replaced, since a task could have changed it; only a bundle that is mounted is used as it is.
Copying is most of what init has to do, and needs nothing of the rest: a process of its own does it meanwhile.
"""

import errno
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

from pai_task.folder import Folder
from pai_task.paths import BUNDLE, LAUNCHER
from pai_task.signals import STOP_SIGNALS

# With pathlib, copying thousands of files would take twice as long.
# ruff: noqa: PTH101, PTH102, PTH115, PTH116, PTH119, PTH211

CONTENTS: Final = "bundle.json"
"""The name of the file in the bundle that lists its content."""

_BUNDLE, _LAUNCHER = (os.path.basename(path) for path in (BUNDLE, LAUNCHER))
_ASIDE: Final = ".bundle.part"
_MOST_BYTES: Final = 1024 * 1024


@contextmanager
def bundle_on_its_way(source: Path, volume: Path) -> Iterator[Callable[[], None]]:
    """Have the bundle in `source` copied meanwhile; what this gives puts it on the volume, with its launcher.

    Where a bundle is mounted there, it has to be the same one. Both raise OSError. Without the call, nothing
    is left of the bundle.
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
            yield lambda: _replace(source / _LAUNCHER, folder, _LAUNCHER)
            return
        _make_room(folder, _BUNDLE)
        copy = _Copy(source, folder)

        def place() -> None:
            copy.finish()
            folder.move(_ASIDE, folder, _BUNDLE)
            _replace(source / _LAUNCHER, folder, _LAUNCHER)

        try:
            yield place
        finally:
            copy.end()
            folder.remove(_ASIDE)


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


def _make_room(volume: Folder, name: str) -> None:
    """Have nothing at a name, which at each moment has all of what was there or nothing, nor aside."""
    volume.remove(_ASIDE)
    if volume.exists(name):
        volume.move(name, volume, _ASIDE)
        volume.remove(_ASIDE)


def _replace(source: Path, volume: Folder, name: str) -> None:
    """Copy a file to a name that has, at each moment, all of it or nothing."""
    _make_room(volume, name)
    try:
        _copy_file(os.fspath(source), f"{volume.where}/{_ASIDE}")
        volume.move(_ASIDE, volume, name)
    except OSError:
        volume.remove(_ASIDE)
        raise


class _Copy:
    """A process that copies a bundle aside, and ends when this one does.

    It also has what this one has locked, so no other init container is at work there before it has ended.
    """

    def __init__(self, source: Path, volume: Folder) -> None:
        self._where = f"{volume.where}/{_ASIDE}"
        read, write = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            parent = os.getpid()
            self._pid = os.fork()
            if self._pid == 0:
                _copy_for(parent, os.fspath(source), self._where, write)
        finally:
            os.close(write)
            self._said = os.fdopen(read, "rb")
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def finish(self) -> None:
        """Wait until all is there; raises OSError."""
        said = self._said.read()  # until it has ended
        if said:
            raise OSError(*json.loads(said))
        if status := self._reap():
            code = os.waitstatus_to_exitcode(status)
            raise OSError(errno.EIO, f"the process that copies the bundle has ended with {code}", self._where)

    def end(self) -> None:
        """Have it no longer, whatever it has done."""
        self._said.close()
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._reap()

    def _reap(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return status


def _copy_for(parent: int, source: str, target: str, told: int) -> NoReturn:
    """Do the work of the process; whatever goes wrong, it never goes on as init."""
    code = 1
    try:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        _copy_folder(source, target, parent)
        code = 0
    except OSError as error:
        os.write(told, json.dumps([error.errno, error.strerror, error.filename]).encode())
    finally:
        os._exit(code)


def _copy_folder(source: str, target: str, parent: int) -> None:
    """Copy installed files to a new name, with their permissions."""
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "init has ended", target)
    os.mkdir(target, 0o755)
    _check_mode(os.stat(target).st_mode, 0o755, target)
    with os.scandir(source) as entries:
        for entry in entries:
            name = f"{target}/{entry.name}"
            if entry.is_symlink():
                try:
                    os.symlink(os.readlink(entry.path), name)
                except OSError as error:
                    error.filename = name  # not where it leads to
                    raise
            elif entry.is_dir():
                _copy_folder(entry.path, name, parent)
            else:
                _copy_file(entry.path, name)


def _copy_file(source: str, target: str) -> None:
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(read)
        mode, left = status.st_mode & 0o755, status.st_size
        written = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            _check_mode(os.fstat(written).st_mode, mode, written)
            while left > 0 and (count := os.sendfile(written, read, None, left)):
                left -= count
        except OSError as error:
            error.filename = target
            raise
        finally:
            os.close(written)
    finally:
        os.close(read)


def _check_mode(found: int, wanted: int, place: str | int) -> None:
    """Have the mode that is wanted, whatever the umask: on a disk, to change one takes as long as a file."""
    if found & 0o777 != wanted:
        os.chmod(place, wanted)
