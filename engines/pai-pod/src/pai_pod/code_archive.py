"""The code of a job as a reproducible archive, which `pai_pod.code` unpacks in the pods of a run."""

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pai_pod.code import MOST_BYTES, MOST_ENTRIES, MOST_PART, MOST_PARTS, code_digest
from pai_runtime.engine import CannotRun, Code
from pai_runtime.engine.jobs import CodeEntry
from pai_runtime.engine.messages import size_text

_TIME: Final = 315_532_800
"""The time of all files (1980), since checkouts and copies of the same content differ in their times."""
_MOST_NAMED: Final = 5


@dataclass(frozen=True)
class PackedCode:
    """An archive in the `parts` in which it comes to a pod, and its `digest`, as a whole."""

    parts: Sequence[bytes]
    digest: str


def pack_code(code: Code) -> PackedCode:
    """Pack files, directories and links as ``tar.gz``. Raises `CannotRun`.

    It contains nothing of who packs it: owners are root, modes as in git, 755 or 644, and all times the same.
    """
    archive = _archive(code, MOST_PARTS * MOST_PART)
    parts = [archive[start : start + MOST_PART] for start in range(0, len(archive), MOST_PART)]
    return PackedCode(parts, code_digest(archive))


def _archive(code: Code, most: int) -> bytes:
    faults: list[OSError] = []
    sizes: dict[str, int] = {}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=9, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for count, entry in enumerate(code.entries(faults.append)):
            if count >= MOST_ENTRIES:
                raise _too_large(code, sizes, f"more than {MOST_ENTRIES} files, directories and links")
            try:
                _add(archive, entry, sizes)
            except OSError as error:
                faults.append(error)
            if sum(sizes.values()) > MOST_BYTES:
                raise _too_large(code, sizes, f"more than {size_text(MOST_BYTES)}")
    if faults:
        raise CannotRun(f"cannot read the code: {faults[0].filename}: {faults[0].strerror}")
    if packed.tell() > most:
        raise _too_large(code, sizes, f"{size_text(packed.tell())} compressed, of {size_text(most)}")
    return packed.getvalue()


def _add(archive: tarfile.TarFile, entry: CodeEntry, sizes: dict[str, int]) -> None:
    """Add an entry; sockets, FIFOs and devices are left out, as in local runs."""
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
            data = file.read(MOST_BYTES + 1)
        info.size = sizes[entry.path] = len(data)
        archive.addfile(info, io.BytesIO(data))


def _too_large(code: Code, sizes: dict[str, int], found: str) -> CannotRun:
    by_size = sorted(sizes, key=lambda path: (-sizes[path], path))[:_MOST_NAMED]
    largest = ", ".join(f"{path} ({size_text(sizes[path])})" for path in by_size)
    return CannotRun(
        f"the code in {code.folder} is too large for the ConfigMaps that carry it: {found}; the"
        f" largest: {largest}. List what the tasks do not need in {code.ignore_file}, clone the code"
        " with the git plugin, or put large files on a storage"
    )
