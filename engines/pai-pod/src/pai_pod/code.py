"""The code of a job in a pod: an archive that the engine has packed, unpacked where the task starts.

The archive comes in parts, none larger than a ConfigMap can be, or as one file on a storage. It is copied to
the volume of the pod, and unpacked only if the whole copy has the digest that the engine gave to the pod. The
engine made it, and yet nothing in it is trusted: what it unpacks to is bounded, it has files, directories and
symbolic links only, each below its directory and made once, and none of the links is followed.
"""

import gzip
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from pai_document.amounts import size_text
from pai_document.printable import printable
from pai_pod.errors import InitFailed
from pai_task.code_archive import (
    ARCHIVE,
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_STORED,
    NEW,
    pieces,
    stored_name,
)
from pai_task.folder import MOST_LEVELS, Folder
from pai_task.regular_file import open_regular

DIGEST_VARIABLE: Final = "PAI_CODE_DIGEST"
"""The variable of the init container with the digest of the archive; unset if the job has no code."""
CODE: Final = "code"
"""The directory of the code on the pod volume, in which the task container starts."""

MOST_PART: Final = 1024 * 1024
"""Maximum bytes of a part, which are those of a ConfigMap."""
MOST_PARTS: Final = 8
"""Maximum number of parts: as long as the run is there, so are they, in etcd and the API server's memory."""
STORED: Final = "storage"
"""The directory, beside those of the parts, at which a pod has the archives on a storage."""
_MOST_AROUND: Final = 64 * 1024
"""Maximum bytes between the contents of two files: headers, long names, and read-ahead."""
_LATEST: Final = 1 << 40
"""The latest time of a file, in seconds since 1970; no file system keeps later ones."""
_PART: Final = 64 * 1024


class _BadArchive(ValueError):
    """The exception for an invalid archive; the text says what is wrong."""


def given_code(parts: Path, digest: str, volume: Path) -> Path | None:
    """Unpack the job's code on the volume, and return its directory; None if the pod has none.

    `parts` is the directory that has one for each part, named by its number, or that of a storage. Raises as
    `unpack_code`, and `InitFailed` for what is not the archive with the digest.
    """
    is_stored = not os.path.lexists(parts / "0") and (parts / STORED).is_dir()
    with tempfile.TemporaryFile(dir=volume) as archive:
        found = sha256()
        for data in _stored(parts / STORED, digest) if is_stored else _joined(parts):
            found.update(data)
            archive.write(data)
        if not archive.tell() and not digest:
            return None
        if f"sha256:{found.hexdigest()}" != digest:
            raise InitFailed(
                1,
                f"{parts}: expected code with the digest in {DIGEST_VARIABLE},"
                f" {printable(digest) or 'which is unset'}, found sha256:{found.hexdigest()}:"
                f" {'the file on the storage' if is_stored else 'a part'} is missing or was changed",
            )
        archive.seek(0)
        with Folder.at(volume) as opened, opened.folder(CODE, make=True) as code:
            unpack_code(archive, code, MOST_STORED if is_stored else MOST_BYTES)
    return volume / CODE


def _joined(parts: Path) -> Iterator[bytes]:
    """Yield the archive up to the first missing part. Raises OSError."""
    for number in range(MOST_PARTS):
        try:
            file = open_regular(parts / str(number) / ARCHIVE)
        except FileNotFoundError:
            return
        with file:
            yield from pieces(file, MOST_PART)


def _stored(storage: Path, digest: str) -> Iterator[bytes]:
    """Yield an archive on a storage, where others may write; nothing if it is missing. Raises OSError."""
    if name := stored_name(digest):
        with Folder.at(storage) as folder:
            try:
                fd = folder.open(name)
            except FileNotFoundError:
                return
            with os.fdopen(fd, "rb") as file:
                yield from pieces(file, MOST_STORED)


def unpack_code(archive: BinaryIO, to: Folder, most: int = MOST_BYTES) -> None:
    """Unpack an archive into an empty directory. Raises `InitFailed`, or OSError if writing fails.

    `most` is the maximum size of all its files.
    """
    try:
        with (
            _Bounded(fileobj=archive) as stream,
            tarfile.open(fileobj=stream, mode="r|") as opened,
        ):
            left, made = most, {""}
            while member := _next(opened, stream):
                left -= member.size
                _check(member, left, most)
                _count(member, made)
                stream.allow(member.size)
                _unpack(opened, member, to)
            _read_end(opened, stream)
    except (_BadArchive, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InitFailed(
            1, f"{ARCHIVE}: expected an archive of code as pai-runtime packs it: {printable(str(error))}"
        ) from None


class _Bounded(gzip.GzipFile):
    """A gzip stream that returns no more bytes than are allowed: tarfile reads as much as a header says."""

    _left = _MOST_AROUND

    def allow(self, size: int) -> None:
        """Allow `size` bytes from now on, besides what surrounds them."""
        self._left = size + _MOST_AROUND

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _BadArchive(
                f"expected headers of at most {size_text(_MOST_AROUND)} in all, found larger ones"
            )
        return data


def _next(archive: tarfile.TarFile, stream: _Bounded) -> tarfile.TarInfo | None:
    """Return the next entry; turn whatever tarfile raises for an invalid header into `_BadArchive`."""
    stream.allow(0)
    try:
        return archive.next()
    except (_BadArchive, tarfile.TarError, OSError, EOFError, zlib.error):
        raise
    except (ValueError, LookupError, ArithmeticError, TypeError, RecursionError) as error:
        raise _BadArchive(f"a header that cannot be read: {error}") from None


def _read_end(archive: tarfile.TarFile, stream: _Bounded) -> None:
    """Read what follows the last entry: zeros, and the checksum."""
    stream.allow(0)
    while data := archive.fileobj.read(_PART):
        if data.strip(b"\0"):
            raise _BadArchive("after its last entry comes something else")


def _count(member: tarfile.TarInfo, made: set[str]) -> None:
    """Raise `_BadArchive` if an entry, with the directories that it needs, exceeds the number allowed."""
    path = ""
    for part in _parts(member):
        path = f"{path}/{part}"
        made.add(path)
    if len(made) > MOST_ENTRIES:
        raise _BadArchive(f"expected at most {MOST_ENTRIES} files, directories and links, found more")


def _check(member: tarfile.TarInfo, left: int, most: int) -> None:
    """Raise `_BadArchive` for an entry that code cannot have, or a file larger than the bytes `left`."""
    shown = ascii(member.name[:200])
    parts = _parts(member)
    if left < 0:
        raise _BadArchive(f"expected at most {size_text(most)} in all files, found more")
    if member.name.startswith("/") or ".." in parts or len(parts) > MOST_LEVELS or "\0" in member.name:
        raise _BadArchive(f"{shown} is not a path below the directory of the code")
    is_file = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and member.sparse is None
    if not (member.isdir() or (parts and (is_file or member.issym()))):
        raise _BadArchive(f"{shown} is neither a file nor a directory nor a symbolic link")
    if member.issym() and (not member.linkname or "\0" in member.linkname):
        raise _BadArchive(f"{shown} leads to what is no path")
    if not 0 <= member.mtime < _LATEST:  # nor is it not a number
        raise _BadArchive(f"{shown} has a time that is none")


def _parts(member: tarfile.TarInfo) -> list[str]:
    return [part for part in member.name.split("/") if part not in ("", ".")]


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Folder) -> None:
    parts = _parts(member)
    if member.isdir():
        if parts:
            to.make("/".join(parts))
        return
    *above, last = parts
    with to.folder("/".join(above), make=True) as holder:
        content = archive.extractfile(member) if member.isreg() else None
        if content is None:
            os.symlink(member.linkname, last, dir_fd=holder.fd)
            return
        with content, os.fdopen(os.open(last, NEW, 0o600, dir_fd=holder.fd), "wb") as file:
            while data := content.read(_PART):
                file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o755 if member.mode & 0o100 else 0o644)
            os.utime(file.fileno(), (member.mtime, member.mtime))  # build tools compare it
