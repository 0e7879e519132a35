"""Files of a task of this machine, from its working directory, in which no link is followed."""

import os
import stat
from collections.abc import Iterator
from functools import partial

from pai_runtime.runs.errors import CannotCopy
from pai_runtime.runs.task_files import TaskFile
from pai_task.folder import MOST_LEVELS, Folder
from pai_task.layout import WORK


def task_files(task: Folder, path: str) -> Iterator[TaskFile]:
    """Yield a file or directory of a task, with all below it. Raises `CannotCopy`."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names:
        raise CannotCopy(
            f"expected a path in its working directory; for other files of this machine, use cp: {path}"
        )
    try:
        with task.folder(WORK) as work:
            if not names:
                yield TaskFile((), "folder")
                yield from _below(work, ())
            else:
                with work.folder("/".join(names[:-1])) as holder:
                    yield from _entry(holder, names[-1], ())
    except OSError as error:
        raise CannotCopy(f"{error.filename}: {error.strerror}") from None


def _entry(holder: Folder, name: str, path: tuple[str, ...]) -> Iterator[TaskFile]:
    mode = holder.stat(name).st_mode
    if stat.S_ISDIR(mode):
        yield TaskFile(path, "folder")
        with holder.folder(name) as folder:
            yield from _below(folder, path)
    elif stat.S_ISREG(mode):
        fd = holder.open(name)
        try:
            found = os.fstat(fd)
            is_executable = bool(found.st_mode & stat.S_IXUSR)
            yield TaskFile(path, "file", found.st_size, is_executable, partial(os.read, fd))
        finally:
            os.close(fd)
    else:
        yield TaskFile(path, "other")


def _below(folder: Folder, path: tuple[str, ...]) -> Iterator[TaskFile]:
    if len(path) >= MOST_LEVELS:
        raise CannotCopy(f"there are more than {MOST_LEVELS} levels of directories")
    for name in sorted(folder.names()):
        yield from _entry(folder, name, (*path, name))
