"""The code of a job: the directory whose files every task has in its working directory when it starts.

Which files these are is decided here for all engines, so that a job sees the same ones wherever it runs: an
engine carries over exactly what `Code.entries` gives.
"""

import errno
import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pai_document.amounts import counted, size_text
from pai_document.problems import InvalidInput, Position, Problem, unexpected
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.runs.errors import CannotRun
from pai_task.folder import MOST_LEVELS, Folder
from pai_task.masking import Masks
from pai_task.record import record

if TYPE_CHECKING:
    import io

    from pai_runtime.engines.ignoring import Ignored
    from pai_runtime.engines.left_out import LeftOut

IGNORE_FILE: Final = ".paiignore"
MUCH: Final = 1024**3
"""The size in bytes above which people are asked whether all of it is code."""

_MOST_PATTERNS: Final = 64 * 1024
_MOST_LISTED: Final = 5
_PART: Final = 1024**2
_MOST_SEARCHED: Final = 64 * 1024**2
"""Maximum bytes of a file that are searched for secrets; of all files, it is `MUCH`."""
_FEWEST: Final = 8
"""Minimum bytes of a secret that is searched for: shorter ones occur by chance."""
_LONG: Final = 16
"""Minimum letters of a secret that is searched for though it may be a word, and not a password."""
_TELLING_LINE: Final = 32
"""Minimum bytes of one line of a secret that is searched for without the others."""
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
    With `is_selected`, it is also without what `pai_runtime.engines.left_out` leaves out, unless a pattern
    takes it back.
    """

    folder: Path
    patterns: Sequence[str] = ()
    apart: Sequence[Path] = ()
    is_selected: bool = False

    @property
    def ignore_file(self) -> Path:
        """The path of the file with the patterns, existing or not."""
        return self.folder / IGNORE_FILE

    def entries(
        self,
        on_error: Callable[[OSError], None],
        on_left_out: Callable[[str, str], None] = lambda _path, _kind: None,
    ) -> Iterator[CodeEntry]:
        """Yield all entries, sorted, a directory before its content; call `on_error` for unreadable ones.

        The content of an ignored directory is ignored, whatever other patterns say. What is removed meanwhile
        is left out. A holder stays open until the next entry is requested. `on_left_out` is called with the
        path of each entry that no pattern decides about, and the kind of what it is left out as.
        """
        apart = {_identity(path.stat()) for path in self.apart if path.exists()}
        takes = _Choice(_ignored(self.patterns), on_left_out).takes

        def below(holder: Folder, above: str, levels: int, left_out: "LeftOut | None") -> Iterator[CodeEntry]:
            if not levels:
                raise OSError(errno.ENAMETOOLONG, f"more than {MOST_LEVELS} levels deep", holder.where)
            left_out = left_out and left_out.inside(holder, above)
            for name in sorted(holder.names()):
                try:
                    status = holder.stat(name)
                except FileNotFoundError:
                    continue
                path, is_folder = above + name, stat.S_ISDIR(status.st_mode)
                if _identity(status) in apart or not takes(holder, path, left_out, is_folder=is_folder):
                    continue
                yield CodeEntry(path, name, holder, status)
                if is_folder:
                    try:
                        with holder.folder(name) as inner:
                            yield from below(inner, f"{path}/", levels - 1, left_out)
                    except OSError as error:
                        on_error(error)

        try:
            with Folder.at(self.folder) as folder:
                left_out = _left_out(self.folder) if self.is_selected else None
                yield from below(folder, "", MOST_LEVELS, left_out)
        except OSError as error:
            on_error(error)


@record(frozen=True)
class _Choice:
    ignored: "Ignored"
    on_left_out: Callable[[str, str], None]

    def takes(self, holder: Folder, path: str, left_out: "LeftOut | None", *, is_folder: bool) -> bool:
        """Return whether an entry is code: as the ignore file decides, or else as `left_out` does."""
        decided = self.ignored.decides(path, is_folder=is_folder)
        if decided is not None or left_out is None:
            return not decided
        if kind := left_out.kind(holder, path, is_folder=is_folder):
            self.on_left_out(path, kind)
        return not kind


def find_code(job: Job, given: Path | None, apart: Sequence[Path]) -> Code | None:
    """Return the code of a job: the directory `given`, else that of ``extras.code``; None without either.

    Raises `InvalidInput` for an unusable directory or ignore file, or a file that contains a secret of the
    job, and `CannotRun` if an unusable directory was given.
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
    code = Code(folder, (*_read_patterns(folder), *_AFTER), apart, is_selected=True)
    if problems := list(_secrets_in(code, secret_values(job.secrets))):
        raise InvalidInput(problems)
    return code


def check_code(code: Code) -> list[str]:
    """Return notes for people about the code of their job. Raises `CannotRun` if it cannot be read."""
    faults: list[OSError] = []
    sizes: Counter[str] = Counter()
    files, special = 0, []
    left_out: dict[str, list[str]] = {}
    for entry in code.entries(faults.append, lambda path, kind: left_out.setdefault(kind, []).append(path)):
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
            f"what the tasks do not need can be listed in {code.ignore_file}"
        )
    size = sizes.total()
    what = f"{counted(files, 'file', 'files')}, {size_text(size)}"
    notes = [f"each task starts with the code in {code.folder}: {what}"]
    if size > MUCH:
        largest = ", ".join(f"{name} ({size_text(each)})" for name, each in sizes.most_common(_MOST_LISTED))
        notes.append(
            f"this is a lot for code, and every run copies it; the largest: {largest}; "
            f"list what the tasks do not need in {code.ignore_file}"
        )
    if special:
        listed = ", ".join(special[:_MOST_LISTED])
        notes.append(f"left out of the code (sockets, FIFOs, devices): {listed}{_more(special)}")
    if listed := "; ".join(_listed_by_kind(left_out)):
        notes.append(
            f"left out of the code: {listed}; to include one, add a line !NAME to {code.ignore_file}"
        )
    return notes


def _listed_by_kind(left_out: Mapping[str, Sequence[str]]) -> Iterator[str]:
    from pai_runtime.engines.left_out import UNNAMED  # noqa: PLC0415 - only jobs with code need it

    for kind, paths in sorted(left_out.items()):
        if kind != UNNAMED:
            yield f"{', '.join(paths[:_MOST_LISTED])}{_more(paths)} ({kind})"


def _secrets_in(code: Code, secrets: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each file that contains the value of a secret; no message contains it."""
    parts = {name: found for name, value in secrets.items() if (found := list(_telling(value)))}
    masks = Masks(itertools.chain.from_iterable(parts.values()))
    left = MUCH
    for entry in code.entries(lambda _error: None) if parts else ():  # `check_code` says what cannot be read
        most = min(entry.status.st_size, _MOST_SEARCHED, left) if stat.S_ISREG(entry.status.st_mode) else 0
        left -= most
        if _is_in(masks, entry, most):
            name = next((each for each, found in parts.items() if _is_in(Masks(found), entry, most)), "")
            message = (
                f"contains the value of the secret '{name}', where whoever sees the code could read it; "
                f"name the file in {code.ignore_file}, or use <% $secrets.{name} %> in the job"
            )
            yield Problem("secret-in-code", message, Position(str(code.folder / entry.path)))


def _is_in(masks: Masks, entry: CodeEntry, most: int) -> bool:
    """Return whether the first `most` bytes of a file contain anything to mask."""
    if not most:
        return False
    try:
        with os.fdopen(entry.holder.open(entry.name), "rb", buffering=0) as file:
            return masks.is_in_parts(_parts(file, most))
    except OSError:
        return False


def _telling(secret: str) -> Iterator[str]:
    """Yield the parts of a secret that nothing else is likely to contain."""
    lines = [line.strip() for line in secret.splitlines()]
    whole = secret.replace("\r", "").replace("\n", "")
    is_word = whole.isalpha() and whole[1:].islower() and len(whole) < _LONG
    if is_word or len(whole.encode("utf-8", "surrogateescape")) < _FEWEST:
        return
    yield whole
    longest = max(lines, key=len)
    if len(lines) > 1 and len(longest) >= _TELLING_LINE:
        yield longest


def _parts(file: "io.FileIO", most: int) -> Iterator[bytes]:
    while most > 0 and (part := file.read(min(most, _PART))):
        yield part
        most -= len(part)


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


def _left_out(folder: Path) -> "LeftOut":
    """Return what is left out by default. Raises OSError."""
    from pai_runtime.engines.left_out import LeftOut  # noqa: PLC0415 - as above

    return LeftOut.of(folder)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # its name is too long, or we may not look there
        return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
