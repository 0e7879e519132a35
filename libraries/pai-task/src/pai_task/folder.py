"""Access to untrusted directories: a task may replace anything in one, so no link in it is followed.

Whoever reads or writes there goes through an open descriptor of the folder, one name after the other, and
follows no link; what is opened is a regular file, and is read up to a bound. So a symbolic link leads
nowhere, a FIFO holds nobody up, and a path does not mean one thing when it is looked at and another when it
is used.
"""

from __future__ import annotations

import errno
import os

from pai_task import atomic_write
from pai_task.regular_file import FLAGS, read_and_close, regular, sole
from pai_task.removal import WALK, is_gone, listable, remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

MOST_LEVELS = 200
"""Maximum depth of nested folders that are visited; each level takes a descriptor."""


class Folder:
    """An open directory; `where` (or `path`) is its name in messages, and is not opened again.

    A ``name`` may have several parts (``logs/runtime.log``), each looked up below the one before, without
    following links. All methods raise OSError with the whole path.
    """

    def __init__(self, fd: int, path: str | os.PathLike[str]) -> None:
        self.fd = fd
        self.where = os.fspath(path)

    @classmethod
    def at(cls, path: str | os.PathLike[str], *, follow: bool = True) -> Folder:
        """Open the directory at a trusted path, such as one given by the user; `follow` allows a link."""
        return cls(os.open(path, WALK & ~os.O_NOFOLLOW if follow else WALK), path)

    @property
    def path(self) -> Path:
        """The path `where` as a `Path`; imports `pathlib`."""
        from pathlib import Path  # noqa: PLC0415 - a supervisor starts faster without

        return Path(self.where)

    @property
    def descriptor(self) -> str:
        """A path below ``/proc/self/fd`` that leads to the directory, even if it was renamed."""
        return f"/proc/self/fd/{self.fd}"

    def __enter__(self) -> Folder:  # noqa: PYI034 - nobody derives from it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        os.close(self.fd)

    def folder(self, name: str, *, make: bool = False) -> Folder:
        """Open a directory below this one; with `make`, create it and its parents if missing.

        Without a name, this directory is opened once more, to be closed separately.
        """
        with _Named(self, name):
            fd = os.dup(self.fd)
            for part in _parts(name) if name else ():
                outer = fd
                try:
                    fd = _open_or_make(outer, part) if make else os.open(part, WALK, dir_fd=outer)
                finally:
                    os.close(outer)
        return Folder(fd, f"{self.where}/{name}" if name else self.where)

    def open(self, name: str) -> int:
        """Open a regular file for reading, and return its descriptor."""
        with _Named(self, name), _Holder(self, name) as holder:
            return regular(os.open(holder.last, os.O_RDONLY | FLAGS, dir_fd=holder.fd), name)

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a regular file, which must not be larger than `most` bytes."""
        data = read_and_close(self.open(name), most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", f"{self.where}/{name}")
        return data

    def append(self, name: str, mode: int = 0o644) -> int:
        """Open a regular file for appending, created if missing like its parents; return its descriptor."""
        with _Named(self, name), _Holder(self, name, make=True) as holder:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | FLAGS
            return sole(os.open(holder.last, flags, mode, dir_fd=holder.fd), name)

    def write(self, name: str, text: str, mode: int = 0o644, *, sync: bool = True) -> None:
        """Write a text file atomically.

        Without `sync` this survives a crash of the process but not of the machine, and is faster.
        """
        data = text.encode("utf-8", "backslashreplace")
        with _Named(self, name), _Holder(self, name) as holder:
            atomic_write.write(holder.fd, holder.last, data, mode, sync=sync)

    def reserve(self, name: str, size: int) -> None:
        """Reserve `size` bytes of disk for a later `write`, in case the disk is full by then."""
        atomic_write.reserve(self.fd, name, size)

    def unreserve(self, name: str) -> None:
        """Release disk space that was reserved and not used."""
        atomic_write.unreserve(self.fd, name)

    def fifo(self, name: str) -> int:
        """Create a FIFO and return its descriptor, with which neither we nor those who open it ever block."""
        with _Named(self, name), _Holder(self, name) as holder:
            try:
                os.mkfifo(holder.last, 0o600, dir_fd=holder.fd)
            except FileExistsError:
                remove(holder.fd, holder.last)
                os.mkfifo(holder.last, 0o600, dir_fd=holder.fd)
            return os.open(holder.last, os.O_RDWR | FLAGS, dir_fd=holder.fd)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of an entry, without following links."""
        with _Named(self, name), _Holder(self, name) as holder:
            return os.stat(holder.last, dir_fd=holder.fd, follow_symlinks=False)

    def exists(self, name: str) -> bool:
        """Return whether an entry of this name exists, whatever it is."""
        try:
            self.stat(name)
        except OSError:
            return False
        return True

    def names(self) -> list[str]:
        """Return the names of the entries."""
        with _Named(self, ""):
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
            try:
                return os.listdir(fd)
            finally:
                os.close(fd)

    def make(self, name: str) -> None:
        """Create a directory and its parents, unless they exist."""
        self.folder(name, make=True).close()

    def move(self, name: str, to: Folder, new_name: str) -> None:
        """Rename an entry of this directory to a name below another one; parent directories are created."""
        with _Holder(to, new_name, make=True) as holder, _Named(self, name):
            try:
                os.rename(name, holder.last, src_dir_fd=self.fd, dst_dir_fd=holder.fd)
            except PermissionError:
                os.close(listable(self.fd, name))  # a folder that cannot be written cannot be moved
                os.rename(name, holder.last, src_dir_fd=self.fd, dst_dir_fd=holder.fd)

    def link(self, name: str, to: Folder) -> None:
        """Create a hard link to a file of this directory in another one, with the same name."""
        with _Named(self, name):
            os.link(name, name, src_dir_fd=self.fd, dst_dir_fd=to.fd, follow_symlinks=False)

    def unlink(self, name: str) -> None:
        """Remove a file or a link, if it exists."""
        try:
            with _Named(self, name), _Holder(self, name) as holder:
                os.unlink(holder.last, dir_fd=holder.fd)
        except FileNotFoundError:
            pass

    def remove_if_empty(self, name: str) -> bool:
        """Remove a directory directly in this one if it is empty; return whether it is gone."""
        with _Named(self, name):
            return is_gone(self.fd, name)

    def remove(self, name: str) -> None:
        """Remove the entry of this directory with that name, recursively."""
        with _Named(self, name):
            remove(self.fd, name)

    def remove_empty(self, levels: int = MOST_LEVELS) -> None:
        """Remove all directories below this one that contain only empty directories."""
        for name in self.names():
            try:
                if levels and not is_gone(self.fd, name):
                    with self.folder(name) as inner:
                        inner.remove_empty(levels - 1)
                    is_gone(self.fd, name)
            except OSError:
                pass


class _Named:
    """A context in which errors name the whole path."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self._name = name

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            error.filename = f"{self._folder.where}/{self._name}" if self._name else self._folder.where
            if error.filename2 is not None:  # set to None, it would be in the message
                del error.filename2


class _Holder:
    """A context with the directory that contains an entry, and the entry's name in it."""

    def __init__(self, folder: Folder, name: str, *, make: bool = False) -> None:
        *above, self.last = _parts(name)
        self._opened = folder.folder("/".join(above), make=make) if above else None
        self.fd = (self._opened or folder).fd

    def __enter__(self) -> _Holder:  # noqa: PYI034 - nobody derives from it
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._opened is not None:
            self._opened.close()


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise OSError(errno.EINVAL, "not below the folder", name)
    return parts


def _open_or_make(holder: int, name: str) -> int:
    try:
        return os.open(name, WALK, dir_fd=holder)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, dir_fd=holder)
    except FileExistsError:
        pass
    return os.open(name, WALK, dir_fd=holder)
