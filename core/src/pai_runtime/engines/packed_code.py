"""The code of a job as a reproducible archive, in whatever way an engine then brings it to the tasks."""

import gzip
import io
import os
import secrets
import stat
import tarfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pai_document.amounts import size_text
from pai_document.problems import InvalidInput, Position, Problem
from pai_runtime.runs.errors import CannotRun
from pai_task.code_archive import (
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_STORED,
    NEW,
    STORED_IN,
    code_digest,
    pieces,
    stored_name,
)
from pai_task.folder import Folder
from pai_task.record import record

if TYPE_CHECKING:
    from pai_runtime.engines.code import Code, CodeEntry

_TIME: Final = 315_532_800
"""The time of all files (1980), since checkouts and copies of the same content differ in their times."""
_MOST_NAMED: Final = 5
_USED_BY: Final = ".used-by."
"""The text between the names of an archive and a run, in the name of the file that says who uses it."""


@record(frozen=True)
class Carrier:
    """What brings code to tasks: maximum bytes of an archive, and of all its files.

    The `name` completes "too large for" in messages.
    """

    name: str
    most: int
    most_bytes: int = MOST_BYTES

    def can_carry(self, packed: "PackedCode") -> bool:
        """Return whether an archive is small enough."""
        return len(packed.archive) <= self.most and packed.size <= self.most_bytes


STORAGE: Final = Carrier("the storage for code", MOST_STORED, MOST_STORED)


@record(frozen=True)
class PackedCode:
    """An archive, its digest, and the size of its files."""

    archive: bytes
    digest: str
    size: int

    def store(self, mounted_at: str, run: str) -> None:
        """Write it to a storage, under the name of its digest, unless it is there. Raises `CannotRun`.

        Others of the team write to the same directory; what they left under that name is checked. Until
        `release_code` for the same `run`, a file beside the archive says that it is used, and since when: the
        archive itself may be a colleague's, who alone can change its time.
        """
        name, aside = stored_name(self.digest), f".{secrets.token_hex(8)}.part"
        try:
            with Folder.at(mounted_at) as storage:
                if not storage.exists(STORED_IN):
                    storage.make(STORED_IN)
                    os.chmod(STORED_IN, 0o1777, dir_fd=storage.fd)  # noqa: S103 - for the whole team, as /tmp
                with storage.folder(STORED_IN) as folder:
                    # Before it is looked for: whoever removes it looks for uses after moving it away.
                    with suppress(FileExistsError):
                        use = f"{name}{_USED_BY}{run}"
                        os.close(os.open(use, NEW, 0o644, dir_fd=folder.fd))
                    if _has(folder, name, self.digest):
                        return
                    fd = os.open(aside, NEW, 0o600, dir_fd=folder.fd)
                    try:
                        with os.fdopen(fd, "wb") as file:
                            file.write(self.archive)
                            file.flush()
                            os.fchmod(fd, 0o644)
                            os.fsync(fd)
                        os.rename(aside, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
                    except BaseException:
                        os.unlink(aside, dir_fd=folder.fd)
                        raise
        except OSError as error:
            where = Path(mounted_at, STORED_IN, name)
            raise CannotRun(f"cannot write the code to its storage: {where}: {error.strerror}") from None


def release_code(mounted_at: str, run: str) -> None:
    """Remove from a storage the archives of code that a run has used, and no other run uses.

    What is not there, or not ours to remove, stays as it is.
    """
    with suppress(OSError), Folder.at(mounted_at) as storage, storage.folder(STORED_IN) as folder:
        for name in folder.names():
            archive, is_use, user = name.partition(_USED_BY)
            if is_use and user == run:
                with suppress(OSError):
                    folder.unlink(name)
                    _remove_unused(folder, archive)


def _remove_unused(folder: Folder, archive: str) -> None:
    if _is_used(folder, archive):
        return
    aside = f".{secrets.token_hex(8)}.part"
    folder.move(archive, folder, aside)
    try:
        if _is_used(folder, archive):  # by now: whoever did not find it writes it again
            folder.move(aside, folder, archive)
    finally:
        folder.unlink(aside)


def _is_used(folder: Folder, archive: str) -> bool:
    return any(name.startswith(f"{archive}{_USED_BY}") for name in folder.names())


def pack_code(code: "Code", carrier: Carrier) -> PackedCode:
    """Pack files, directories and links as ``tar.gz``.

    It contains nothing of who packs it: owners are root, modes as in git, 755 or 644, and all times the same.
    Raises `CannotRun` if that is too large, and `InvalidInput` with all that cannot be read.
    """
    archive, size = _archive(code, carrier)
    return PackedCode(archive, code_digest(archive), size)


def _has(folder: Folder, name: str, digest: str) -> bool:
    try:
        with os.fdopen(folder.open(name), "rb") as file:
            found = sha256()
            for data in pieces(file, MOST_STORED):
                found.update(data)
            return f"sha256:{found.hexdigest()}" == digest
    except OSError:
        return False


def _archive(code: "Code", carrier: Carrier) -> tuple[bytes, int]:
    """Return the archive, and the size of its files."""
    faults: list[OSError] = []
    sizes: dict[str, int] = {}
    packed, size = io.BytesIO(), 0
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=9, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for count, entry in enumerate(code.entries(faults.append)):
            if count >= MOST_ENTRIES:
                many = f"more than {MOST_ENTRIES} files, directories and links"
                raise _too_large(code, sizes, many, carrier.name)
            try:
                size += _add(archive, entry, sizes, carrier.most_bytes)
            except OSError as error:
                faults.append(error)
            if size > carrier.most_bytes:
                raise _too_large(code, sizes, f"more than {size_text(carrier.most_bytes)}", carrier.name)
    if faults:
        raise InvalidInput([_unreadable(code, fault) for fault in faults])
    if packed.tell() > carrier.most:
        large = f"{size_text(packed.tell())} compressed, and at most {size_text(carrier.most)} fit"
        raise _too_large(code, sizes, large, carrier.name)
    return packed.getvalue(), size


def _add(archive: tarfile.TarFile, entry: "CodeEntry", sizes: dict[str, int], most: int) -> int:
    """Add an entry, and return its size; sockets, FIFOs and devices are left out, as in local runs."""
    info = tarfile.TarInfo(entry.path)
    info.mtime = _TIME
    kind = stat.S_IFMT(entry.status.st_mode)
    is_executable = kind == stat.S_IFDIR or entry.status.st_mode & stat.S_IXUSR
    info.mode = 0o755 if is_executable else 0o644
    if kind == stat.S_IFDIR:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif kind == stat.S_IFLNK:
        info.type = tarfile.SYMTYPE
        info.linkname = os.readlink(entry.name, dir_fd=entry.holder.fd)
        archive.addfile(info)
    elif kind == stat.S_IFREG:
        with os.fdopen(entry.holder.open(entry.name), "rb") as file:
            data = file.read(most + 1)
        info.size = sizes[entry.path] = len(data)
        archive.addfile(info, io.BytesIO(data))
    return info.size


def _unreadable(code: "Code", fault: OSError) -> Problem:
    message = f"cannot be read: {fault.strerror}; list it in {code.ignore_file} if the tasks do not need it"
    return Problem("unreadable", message, Position(str(fault.filename or code.folder)))


def _too_large(code: "Code", sizes: dict[str, int], found: str, carrier: str) -> CannotRun:
    by_size = sorted(sizes, key=lambda path: (-sizes[path], path))[:_MOST_NAMED]
    largest = ", ".join(f"{path} ({size_text(sizes[path])})" for path in by_size)
    return CannotRun(
        f"the code in {code.folder} is too large for {carrier}: {found}; the"
        f" largest files: {largest}. List what the tasks do not need in {code.ignore_file}, clone the code"
        " with the git plugin, or put large files on a storage"
    )
