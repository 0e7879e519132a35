"""A cache of server responses in the user's cache directory, by origin and digest."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from pai_definitions.web import MOST_BYTES
from pai_document.configuration_files import user_directory
from pai_task import atomic_write
from pai_task.regular_file import FLAGS, read_and_close, regular

MOST_KEPT: Final = 256 << 20
MOST_FILES: Final = 10_000

_DIGEST: Final = re.compile("[0-9a-f]{64}")


class Cache:
    """The files of a private folder; None is that of the user. It is empty if the folder is unusable.

    Content is compared with its digest: anything that was changed counts as missing.
    """

    def __init__(
        self, folder: Path | None = None, *, most_bytes: int = MOST_KEPT, most_files: int = MOST_FILES
    ) -> None:
        self._folder = folder or user_folder()
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._is_trimmed = False

    def pinned(self, origin: str, digest: str) -> bytes | None:
        """Return the content from an origin with a SHA-256 digest (hexadecimal); None if it is missing.

        The same bytes from another origin do not count, since a policy may not allow that one.
        """
        if not _DIGEST.fullmatch(digest):
            return None
        content = self._read(_name(origin, digest))
        return content if content is not None and sha256(content).hexdigest() == digest else None

    def latest(self, origin: str) -> bytes | None:
        """Return the content that an origin gave last; None if it is missing."""
        digest = self._read(_name(origin))
        return None if digest is None else self.pinned(origin, digest.decode(errors="replace"))

    def keep(self, origin: str, content: bytes, *, is_latest: bool = False) -> None:
        """Store content of an origin, if possible; `is_latest` marks it as what the origin gave last."""
        digest = sha256(content).hexdigest()
        if len(content) > MOST_BYTES:
            return
        try:
            with self._opened(make=True) as holder:
                if self.pinned(origin, digest) is None:
                    atomic_write.write(holder, _name(origin, digest), content, 0o600, sync=False)
                if is_latest:
                    atomic_write.write(holder, _name(origin), digest.encode(), 0o600, sync=False)
                self._trim(holder)
        except OSError:
            pass

    def _read(self, name: str) -> bytes | None:
        try:
            with self._opened() as holder:
                fd = regular(os.open(name, os.O_RDONLY | FLAGS, dir_fd=holder), name)
                content = read_and_close(fd, MOST_BYTES + 1)
                os.utime(name, dir_fd=holder, follow_symlinks=False)  # what is used is not the oldest
        except OSError:
            return None
        return content if len(content) <= MOST_BYTES else None

    @contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[int]:
        """Open the folder, if nobody else can write to it. Raises `OSError`."""
        if self._folder is None:
            raise FileNotFoundError
        if make:
            _make_private(self._folder)
        holder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(holder)
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise PermissionError
            yield holder
        finally:
            os.close(holder)

    def _trim(self, holder: int) -> None:
        """Remove the oldest files beyond the limits, once per process, which adds only a few."""
        if self._is_trimmed:
            return
        self._is_trimmed = True
        with os.scandir(holder) as entries:
            found = [(entry.stat(follow_symlinks=False), entry.name) for entry in entries]
        kept = 0
        found.sort(key=lambda each: each[0].st_mtime, reverse=True)
        for number, (status, name) in enumerate(found, 1):
            kept += status.st_size
            if number > self._most_files or kept > self._most_bytes:
                os.unlink(name, dir_fd=holder)


def user_folder() -> Path | None:
    """Return the user's cache directory for definitions; None without a home directory."""
    own = user_directory("XDG_CACHE_HOME", ".cache")
    return own and own / "definitions"


def _make_private(folder: Path) -> None:
    """Create a folder and its parents for their owner alone, as the XDG specification requires."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _name(origin: str, digest: str = "") -> str:
    """Return a file name: with a digest, of that content; without, of the digest of the latest content."""
    of = sha256(origin.encode(errors="surrogatepass")).hexdigest()
    return f"{of}-{digest}" if digest else of
