"""A folder in which a task, or anybody else, may put what it likes: nothing in it is what its name says.

Whoever reads or writes there goes through an open descriptor of the folder, one name after the other, and
follows no link; what is opened is a regular file, and is read up to a bound. So a symbolic link leads
nowhere, a FIFO holds nobody up, and a path does not mean one thing when it is looked at and another when it
is used.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

MOST_LEVELS = 200
"""Folders below each other that are looked into; each takes a descriptor."""


class Folder:
    """An open folder. `path` is what messages call it, and is not opened again.

    A ``name`` may have several parts (``logs/runtime.log``), each of them looked up below the one before. All
    methods raise OSError with the whole path.
    """

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = fd
        self.path = path

    @classmethod
    def at(cls, path: Path) -> "Folder":
        """The folder at a path that nobody else can change, such as one that a person has given."""
        return cls(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), path)

    def __enter__(self) -> "Folder":  # noqa: PYI034 - nobody derives from it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.fd)

    def folder(self, name: str, *, make: bool = False) -> "Folder":
        """A folder below this one; with `make`, it is made if it is not there, and so are those above it.

        Without a name it is the same folder once more, to be closed for itself.
        """
        with self._named(name):
            fd = os.dup(self.fd)
            for part in _parts(name) if name else ():
                outer = fd
                try:
                    if make:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(part, dir_fd=outer)
                    fd = os.open(part, _WALK, dir_fd=outer)
                finally:
                    os.close(outer)
        return Folder(fd, self.path / name)

    def open(self, name: str) -> int:
        """A descriptor of a regular file, to read it."""
        with self._holder(name) as (holder, last), self._named(name):
            return _regular(os.open(last, os.O_RDONLY | _FILE, dir_fd=holder), name)

    def read(self, name: str, most: int) -> bytes:
        """The content of a regular file, which must not have more than `most` bytes."""
        with os.fdopen(self.open(name), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", str(self.path / name))
        return data

    def append(self, name: str, mode: int = 0o644) -> int:
        """A descriptor to append to a regular file, made if it is not there, with the folders above it."""
        with self._holder(name, make=True) as (holder, last), self._named(name):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE
            return _sole(os.open(last, flags, mode, dir_fd=holder), name)

    def write(self, name: str, text: str, mode: int = 0o644, *, sync: bool = True) -> None:
        """Write a file so that a crash leaves the old one or the new one, and never half of one.

        Without `sync` that holds for a crash of ours and not for one of the machine, and costs no time.
        """
        with self._holder(name) as (holder, last), self._named(name):
            aside = _aside(last)
            try:
                with os.fdopen(_open_aside(holder, aside, mode), "wb") as file:
                    file.write(text.encode("utf-8", "backslashreplace"))
                    file.truncate()  # last, to keep what was reserved
                    if sync:
                        file.flush()
                        os.fsync(file.fileno())
                _replace(holder, aside, last)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(aside, dir_fd=holder)
                raise

    def reserve(self, name: str, size: int) -> None:
        """Take so many bytes of the disk for what `write` will write there, should it be full by then."""
        with contextlib.suppress(OSError), self._holder(name) as (holder, last):
            fd = _open_aside(holder, _aside(last), 0o644)
            try:
                os.posix_fallocate(fd, 0, size)
            finally:
                os.close(fd)

    def unreserve(self, name: str) -> None:
        """Give back what was reserved and not used."""
        self.unlink(_aside(name))

    def fifo(self, name: str) -> int:
        """A descriptor of a new FIFO that never blocks us, nor whoever opens it while we have it open."""
        with self._holder(name) as (holder, last), self._named(name):
            _remove(holder, last)
            os.mkfifo(last, 0o600, dir_fd=holder)
            return os.open(last, os.O_RDWR | _FILE, dir_fd=holder)

    def stat(self, name: str) -> os.stat_result:
        """What is there by this name, be it a link."""
        with self._holder(name) as (holder, last), self._named(name):
            return os.stat(last, dir_fd=holder, follow_symlinks=False)

    def exists(self, name: str) -> bool:
        """Whether anything is there by this name."""
        try:
            self.stat(name)
        except OSError:
            return False
        return True

    def names(self) -> list[str]:
        """What is in the folder."""
        with self._named(""):
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
            try:
                return os.listdir(fd)  # noqa: PTH208 - a path would be looked up again
            finally:
                os.close(fd)

    def make(self, name: str) -> None:
        """Make a folder, and those above it, that may be there."""
        self.folder(name, make=True).close()

    def move(self, name: str, to: "Folder", new_name: str) -> None:
        """Rename what is directly in this folder to a name below another; folders on the way are made."""
        with to._holder(new_name, make=True) as (holder, last), self._named(name):  # noqa: SLF001 - of our kind
            try:
                os.rename(name, last, src_dir_fd=self.fd, dst_dir_fd=holder)
            except PermissionError:
                os.close(_listable(self.fd, name))  # a folder that cannot be written cannot be moved
                os.rename(name, last, src_dir_fd=self.fd, dst_dir_fd=holder)

    def link(self, name: str, to: "Folder") -> None:
        """Give a file that is directly in this folder the same name in another, as a hard link."""
        with self._named(name):
            os.link(name, name, src_dir_fd=self.fd, dst_dir_fd=to.fd, follow_symlinks=False)

    def unlink(self, name: str) -> None:
        """Remove a file or a link, if it is there."""
        with contextlib.suppress(FileNotFoundError), self._holder(name) as (holder, last), self._named(name):
            os.unlink(last, dir_fd=holder)

    def remove_if_empty(self, name: str) -> bool:
        """Remove a folder that is directly in this one, if nothing is in it; whether it is gone."""
        with self._named(name):
            return _is_gone(self.fd, name)

    def remove(self, name: str) -> None:
        """Remove whatever is directly in this folder by that name, with all that is below it."""
        with self._named(name):
            _remove(self.fd, name)

    def remove_empty(self, levels: int = MOST_LEVELS) -> None:
        """Remove all folders below this one in which there is nothing but such folders."""
        for name in self.names():
            with contextlib.suppress(OSError):
                if levels and not _is_gone(self.fd, name):
                    with self.folder(name) as inner:
                        inner.remove_empty(levels - 1)
                    _is_gone(self.fd, name)

    @contextlib.contextmanager
    def _holder(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that has what is meant, and its name there."""
        *above, last = _parts(name)
        if not above:
            yield self.fd, last
            return
        with self.folder("/".join(above), make=make) as holder:
            yield holder.fd, last

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = str(self.path / name)
            error.filename2 = None
            raise


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise OSError(errno.EINVAL, "not below the folder", name)
    return parts


def _regular(fd: int, name: str) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def _sole(fd: int, name: str) -> int:
    """Not a file with other hard links: what is written to it would be written to those."""
    if os.fstat(_regular(fd, name)).st_nlink > 1:
        os.close(fd)
        raise OSError(errno.EMLINK, "has other hard links", name)
    return fd


def _aside(name: str) -> str:
    """Where a file is written before it takes its name."""
    return f".{name}.part"


def _open_aside(holder: int, aside: str, mode: int) -> int:
    """What has been reserved, or else a new file, whatever is there in its way."""
    with contextlib.suppress(OSError):
        return _sole(os.open(aside, os.O_WRONLY | _FILE, dir_fd=holder), aside)
    _remove(holder, aside)
    return os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=holder)


def _replace(holder: int, aside: str, name: str) -> None:
    try:
        os.rename(aside, name, src_dir_fd=holder, dst_dir_fd=holder)
    except IsADirectoryError:
        _remove(holder, name)
        os.rename(aside, name, src_dir_fd=holder, dst_dir_fd=holder)


def _is_gone(holder: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=holder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _remove(holder: int, name: str) -> None:
    """Remove a tree of any depth: folders come up out of those that they are in, so that few are open."""
    try:
        os.unlink(name, dir_fd=holder)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        pass
    else:
        return
    if _is_gone(holder, name):  # raises for a mount, which is somebody else's, whatever is in it
        return
    top = _listable(holder, name)
    try:
        number = 0
        while found := os.listdir(top):  # noqa: PTH208 - as above
            for inner in found:
                number = _empty(top, inner, number)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=holder)


def _empty(top: int, name: str, number: int) -> int:
    """Remove something that is directly in `top`, where the folders in it come up to with new names."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return number
    if _is_gone(top, name):
        return number
    inner = _listable(top, name)
    try:
        for each in os.listdir(inner):  # noqa: PTH208 - as above
            if stat.S_ISDIR(os.stat(each, dir_fd=inner, follow_symlinks=False).st_mode):
                while _exists(top, f".{number}"):
                    number += 1
                os.close(_listable(inner, each))  # what cannot be written cannot be moved
                os.rename(each, f".{number}", src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(each, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
    return number


def _listable(holder: int, name: str) -> int:
    """A folder to be emptied, whatever rights its owner has left himself."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, _WALK, dir_fd=holder)
    try:
        if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{fd}").chmod(stat.S_IRWXU)
        return os.open(".", flags, dir_fd=fd)
    finally:
        os.close(fd)


def _exists(holder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=holder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
