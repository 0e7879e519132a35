"""Removal of a local run's directory, once none of its processes lives and nothing is mounted in it."""

import contextlib
import errno
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from pai_runtime.engines.local.mounting import mount_points
from pai_runtime.runs.errors import CannotRemove
from pai_runtime.runs.names import LOCK, NoSuchRun, has_traces, is_among_runs
from pai_runtime.runs.run_lock import lock
from pai_runtime.runs.state import RUN, Run, Unreadable
from pai_task.folder import Folder
from pai_task.session_socket import is_alive

_BLOCK = 512


def remove_found(folder: Path, read: Callable[[Path], Run | Unreadable]) -> int:
    """Remove the directory of a run if `read` says that it is over; return its size in bytes.

    Raises `CannotRemove`, or `NoSuchRun` if it is not the directory of a run.
    """
    if folder.is_symlink():
        raise CannotRemove(f"it is a link to {folder.resolve()}; name the directory itself")
    try:
        opened = Folder.at(folder, follow=False)
    except OSError as error:
        raise NoSuchRun(f"{folder} is not the directory of a run: {error.strerror}") from None
    with opened:  # what is checked is what is removed, whatever is given its name meanwhile
        kept = Path(opened.descriptor)
        run = read(kept)
        if isinstance(run, Run) and not run.over:
            raise CannotRemove(f"it is running; stop it first: pai-runtime stop {shlex.quote(str(folder))}")
        if isinstance(run, Unreadable) and not (is_among_runs(kept) and has_traces(kept)):
            raise NoSuchRun(
                f"{folder} is not the directory of a run: {run.reason}; rm -r removes any directory"
            )
        size = _size(kept)
        remove_run(kept)
        return size


def remove_run(folder: Path) -> None:
    """Remove the directory of a run that is over. Raises `CannotRemove` if it is not, or that fails."""
    where = folder.resolve()
    try:
        # Not by its path any more: others may be able to rename what is on the way.
        with Folder.at(folder) as run, _locked(run), Folder.at(f"{run.descriptor}/..") as above:
            run.where = str(where)
            _check(where)
            for name in run.names():
                if name not in (RUN, LOCK):  # until the end, so that what is left is known to be a run
                    run.remove(name)
            run.remove(RUN)
            run.remove(LOCK)
            above.where = str(where.parent)
            if not above.remove_if_empty(where.name):
                raise CannotRemove("something is writing to its directory; try again")
    except BlockingIOError:
        raise CannotRemove("it is being started, or being removed by another process") from None
    except OSError as error:
        raise CannotRemove(f"{error.filename}: {error.strerror}{_advice(error, where)}") from None


@contextlib.contextmanager
def _locked(run: Folder) -> Iterator[None]:
    fd = lock(run)
    try:
        yield
    finally:
        os.close(fd)


def _check(folder: Path) -> None:
    mounted = [point for point in mount_points() if point.is_relative_to(folder)]
    if mounted:
        raise CannotRemove(f"something is mounted at {mounted[-1]}; unmount it first")
    for task in _tasks(folder):
        with contextlib.suppress(OSError), Folder.at(folder) as run, run.folder(task) as own:
            if is_alive(own):
                raise CannotRemove(f"task {task} has not ended yet; try again in a minute")
    left = list(_processes(folder))
    if left:
        pids = " ".join(map(str, left))
        raise CannotRemove(f"processes of its tasks are still running; end them with: kill {pids}")


def _tasks(folder: Path) -> Iterator[str]:
    """Yield the names of the run's tasks, from its folders."""
    for role in os.scandir(folder):
        if role.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):
                yield from (f"{role.name}/{each.name}" for each in os.scandir(role) if each.name.isdecimal())


def _processes(folder: Path) -> Iterator[int]:
    """Yield the ids of processes that were started in its tasks, as far as we may look into them."""
    mark = b"\0PAI_WORK_DIR=" + os.fsencode(folder) + b"/"
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if mark in b"\0" + Path("/proc", name, "environ").read_bytes():
                    yield int(name)


def _advice(error: OSError, folder: Path) -> str:
    if error.errno not in (errno.EACCES, errno.EPERM) or os.geteuid() == 0:
        return ""
    command = shlex.join(["unshare", "--map-auto", "--map-root-user", "rm", "-r", str(folder)])
    return f"; root can remove files of other users; for those of your subuids, use: {command}"


def _size(folder: Path) -> int:
    """Return the size of a directory on disk in bytes, as far as it is readable."""
    left, size, seen = [str(folder)], 0, set()
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    size += status.st_blocks * _BLOCK
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
    return size
