"""The code of a job: the directory whose files every task has in its working directory when it starts.

Which files these are is decided here for all engines, so that a job sees the same ones wherever it runs: an
engine carries over exactly what `Code.entries` gives.
"""

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pai_runtime.document.amounts import counted, size_text
from pai_runtime.document.problems import InvalidInput, Position, Problem, unexpected
from pai_runtime.job.model import Job
from pai_runtime.runs.errors import CannotRun
from pai_runtime.task.folder import MOST_LEVELS, Folder
from pai_runtime.task.record import record

if TYPE_CHECKING:
    from pai_runtime.engines.ignoring import Ignored

IGNORE_FILE: Final = ".paiignore"
MUCH: Final = 1024**3
"""The size in bytes above which people are asked whether all of it is code."""

_MOST_PATTERNS: Final = 64 * 1024
_MOST_LISTED: Final = 5
_BEFORE: Final = (".git",)
"""Patterns that are ignored unless the ignore file re-includes them."""
_AFTER: Final = (".pai-runs/",)
"""Patterns that are always ignored."""


@record(frozen=True)
class CodeEntry:
    """A file, directory, link or other entry: its path below the code's directory, and its status.

    `holder` is the open directory that contains it as `name`: opening it there follows no link on the way.
    """

    path: str
    name: str
    holder: Folder
    status: os.stat_result


@record(frozen=True)
class Code:
    """The code in `folder`, without what matches `patterns`, as in ``.gitignore``, and without `apart`.

    `apart` are files and directories that are left out wherever they are, such as the directory of the run.
    """

    folder: Path
    patterns: Sequence[str] = ()
    apart: Sequence[Path] = ()

    def entries(self, on_error: Callable[[OSError], None]) -> Iterator[CodeEntry]:
        """Yield all entries, sorted, a directory before its content; call `on_error` for unreadable ones.

        The content of an ignored directory is ignored, whatever other patterns say. What is removed meanwhile
        is left out. A holder stays open until the next entry is requested.
        """
        ignored = _ignored(self.patterns)
        apart = {_identity(path.stat()) for path in self.apart if path.exists()}

        def below(holder: Folder, above: str, levels: int) -> Iterator[CodeEntry]:
            if not levels:
                raise OSError(errno.ENAMETOOLONG, f"more than {MOST_LEVELS} levels deep", holder.where)
            for name in sorted(holder.names()):
                try:
                    status = holder.stat(name)
                except FileNotFoundError:
                    continue
                path, is_folder = above + name, stat.S_ISDIR(status.st_mode)
                if _identity(status) in apart or ignored(path, is_folder=is_folder):
                    continue
                yield CodeEntry(path, name, holder, status)
                if is_folder:
                    try:
                        with holder.folder(name) as inner:
                            yield from below(inner, f"{path}/", levels - 1)
                    except OSError as error:
                        on_error(error)

        try:
            with Folder.at(self.folder) as folder:
                yield from below(folder, "", MOST_LEVELS)
        except OSError as error:
            on_error(error)


def find_code(job: Job, given: Path | None, apart: Sequence[Path]) -> Code | None:
    """Return the code of a job: the directory `given`, else that of ``extras.code``; None without either.

    Raises `InvalidInput` for an unusable directory or ignore file, and `CannotRun` if that directory was
    given.
    """
    if given is not None:
        if not _is_folder(given):
            raise CannotRun(f"--code {given}: not a directory")
        folder = given
    elif job.code is not None:
        found, expected = f"'{job.code.text}'", "a directory, relative to the job file"
        folder = Path(job.file).parent / job.code.text
        if Path(job.code.text).is_absolute():
            message = f"{unexpected(expected, found)}; for any other directory, use run --code"
            raise InvalidInput([job.code.problem("absolute-path", message, found, expected)])
        if not _is_folder(folder):
            message = f"{unexpected(expected, found)}: {folder} is not a directory"
            raise InvalidInput([job.code.problem("no-such-directory", message, found, expected)])
    else:
        return None
    folder = folder.resolve()
    return Code(folder, (*_BEFORE, *_read_patterns(folder), *_AFTER), apart)


def check_code(code: Code) -> list[str]:
    """Return notes for people about the code of their job. Raises `CannotRun` if it cannot be read."""
    faults: list[OSError] = []
    sizes: Counter[str] = Counter()
    files, special = 0, []
    for entry in code.entries(faults.append):
        kind = stat.S_IFMT(entry.status.st_mode)
        if kind == stat.S_IFREG:
            files += 1
            sizes[entry.path.partition("/")[0]] += entry.status.st_size
            try:
                os.close(entry.holder.open(entry.name))
            except OSError as error:
                faults.append(error)
        elif kind not in (stat.S_IFDIR, stat.S_IFLNK):
            special.append(entry.path)
    if faults:
        listed = "; ".join(f"{fault.filename}: {fault.strerror}" for fault in faults[:_MOST_LISTED])
        raise CannotRun(
            f"cannot read the code in {code.folder}: {listed}{_more(faults)}; "
            f"what the tasks do not need can be listed in {code.folder / IGNORE_FILE}"
        )
    size = sizes.total()
    what = f"{counted(files, 'file', 'files')}, {size_text(size)}"
    notes = [f"each task starts with the code in {code.folder}: {what}"]
    if size > MUCH:
        largest = ", ".join(f"{name} ({size_text(each)})" for name, each in sizes.most_common(_MOST_LISTED))
        notes.append(
            f"this is a lot for code, and every run copies it; the largest: {largest}; "
            f"list what the tasks do not need in {code.folder / IGNORE_FILE}"
        )
    if special:
        listed = ", ".join(special[:_MOST_LISTED])
        notes.append(f"left out of the code (sockets, FIFOs, devices): {listed}{_more(special)}")
    return notes


def _read_patterns(folder: Path) -> list[str]:
    """Return the lines of the ignore file; empty without one. Raises `InvalidInput`."""
    path = folder / IGNORE_FILE
    try:
        with Folder.at(folder) as opened:
            lines = (
                opened.read(IGNORE_FILE, _MOST_PATTERNS).decode("utf-8-sig", "surrogateescape").split("\n")
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise InvalidInput([Problem("unreadable", message, Position(str(path)))]) from None
    try:
        _ignored(lines)
    except ValueError:
        raise InvalidInput(list(_wrong_patterns(path, lines))) from None
    return lines


def _wrong_patterns(path: Path, lines: Sequence[str]) -> Iterator[Problem]:
    for number, line in enumerate(lines, 1):
        try:
            _ignored([line])
        except ValueError:
            message = unexpected("a pattern as in .gitignore", f"'{line}'")
            yield Problem("wrong-pattern", message, Position(str(path), number, 1), found=f"'{line}'")


def _ignored(patterns: Sequence[str]) -> "Ignored":
    """Compile ignore patterns. Raises `ValueError`."""
    from pai_runtime.engines.ignoring import Ignored  # noqa: PLC0415 - only jobs with code need it

    return Ignored(patterns)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # its name is too long, or we may not look there
        return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
