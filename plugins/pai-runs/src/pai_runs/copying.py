"""Copies of a task's files. Their names, kinds and sizes are what the task says: nothing of it is trusted.

A copy is made beside its place under another name, and then renamed: there is all of it, or nothing.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pai_runtime.command.output import printable, size_text
from pai_runtime.command.runs import MOST_LEVELS, CannotCopy, Folder, TaskFile

MOST_ENTRIES: Final = 1_000_000
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Copied:
    """The extent of a copy in files and bytes; `left_out` are links and special files."""

    files: int
    size: int
    left_out: Sequence[str]


def copy_files(files: Iterator[TaskFile], target: Path, most: int, *, replace: bool = False) -> Copied:
    """Copy files to a path at which nothing is; with `replace`, or a file that a file takes the place of.

    Raises `CannotCopy`, also beyond `most` bytes; nothing is left then.
    """
    aside = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        if not target.parent.is_dir():
            raise CannotCopy(f"there is no directory {target.parent}")
        if os.path.lexists(target) and not (replace and target.is_file()):
            hint = "" if replace or not target.is_file() else "; --force replaces it"
            raise CannotCopy(f"{target} exists{hint}")
        with closing(_Copy(files, most)) as copy:
            copied = copy.to(aside)
        if aside.is_dir() or replace:
            aside.rename(target)
        else:
            os.link(aside, target)  # not over what has come meanwhile
            aside.unlink()
    except OSError as error:
        raise CannotCopy(f"{error.filename2 or error.filename or target}: {error.strerror}") from None
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
    return copied


def copy_to(files: Iterator[TaskFile], write: Callable[[bytes], None], most: int) -> None:
    """Pass on the content of one file. Raises `CannotCopy`."""
    with closing(_Copy(files, most)) as copy:
        copy.content(write)


class _Copy:
    def __init__(self, files: Iterator[TaskFile], most: int) -> None:
        self._files = files
        self._most = most
        self._count = self._size = 0
        self._left_out: list[str] = []

    def close(self) -> None:
        close = getattr(self._files, "close", None)  # of a generator, which may have a connection
        if close:
            close()

    def content(self, write: Callable[[bytes], None]) -> None:
        first = self._first()
        if first.kind != "file":
            raise CannotCopy("it is a directory; expected a file")
        for piece in self._pieces(first):
            write(piece)
        self._end()

    def to(self, place: Path) -> Copied:
        first = self._first()
        if first.kind == "file":
            with Folder.at(place.parent) as parent:
                self._write(first, parent, place.name)
            self._end()
        else:
            place.mkdir()
            with Folder.at(place, follow=False) as root:
                for each in self._files:
                    self._add(each, root)
        return Copied(self._count, self._size, self._left_out)

    def _first(self) -> TaskFile:
        first = next(self._files, None)
        if first is None or first.path:
            raise CannotCopy("nothing came of it")
        if first.kind == "other":
            raise CannotCopy("it is a link or a special file; expected a file or a directory")
        return first

    def _end(self) -> None:
        if next(self._files, None) is not None:
            raise CannotCopy("more than one file came of it")

    def _add(self, entry: TaskFile, root: Folder) -> None:
        path = _checked(entry.path)
        self._count += 1
        if self._count > MOST_ENTRIES:
            raise CannotCopy(f"there are more than {MOST_ENTRIES} files")
        if entry.kind == "other":
            self._left_out.append(printable(path))
        elif entry.kind == "folder":
            root.make(path)
        else:
            above, _, name = path.rpartition("/")
            with root.folder(above, make=True) as holder:
                self._write(entry, holder, name)

    def _write(self, entry: TaskFile, holder: Folder, name: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o777 if entry.executable else 0o666, dir_fd=holder.fd)
        with os.fdopen(fd, "wb", buffering=0) as file:
            for piece in self._pieces(entry):
                left = piece
                while left:
                    left = left[file.write(left) :]

    def _pieces(self, entry: TaskFile) -> Iterator[bytes]:
        self._size += entry.size
        if self._size > self._most:
            raise CannotCopy(f"it is larger than {size_text(self._most)}; --limit allows more")
        left = entry.size
        while left:
            piece = entry.read(min(left, _PIECE))
            if not piece or len(piece) > left:
                raise CannotCopy("a file ended before its size, or came without an end")
            left -= len(piece)
            yield piece


def _checked(path: Sequence[str]) -> str:
    """Return a relative path of names that stay below it. Raises `CannotCopy`."""
    names = list(path)
    if not 0 < len(names) <= MOST_LEVELS or any(
        name in ("", ".", "..") or "/" in name or "\0" in name for name in names
    ):
        raise CannotCopy(f"the task names a file that is not below it: {printable('/'.join(names))[:200]!r}")
    return "/".join(names)
