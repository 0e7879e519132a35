"""ELF files: their dependencies, and copies that search for libraries in the bundle only."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from pai_pod.bundle.errors import CannotBundle

_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
"""Types of segments."""
_NULL, _NEEDED, _STRTAB, _RPATH, _RUNPATH = 0, 1, 5, 15, 29
"""Tags of entries in the dynamic section."""
_IDENTITY = b"\x7fELF\x02\x01\x01"
"""The first bytes of a little-endian 64-bit file."""
_HEADER = 64
"""The size of the header of a 64-bit file."""
_ENTRY = struct.Struct("<qQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")


class Elf:
    """The content of a 64-bit ELF file; all methods raise ValueError for anything else."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(_IDENTITY) or len(data) < _HEADER:
            raise ValueError("expected a little-endian 64-bit ELF file")
        self._data = data
        try:
            (table,) = struct.unpack_from("<Q", data, 32)
            size, count = struct.unpack_from("<HH", data, 54)
            self._segments = [_SEGMENT.unpack_from(data, table + size * index) for index in range(count)]
        except (struct.error, OverflowError):  # the latter for what is beyond all memory
            raise ValueError("the ELF file is truncated") from None

    @property
    def interpreter(self) -> str | None:
        """The dynamic loader that the program names; None for a static program or a library."""
        return next((os.fsdecode(data.rstrip(b"\0")) for _, data in self._of_type(_INTERP)), None)

    @property
    def is_static(self) -> bool:
        """Whether the program runs without a dynamic loader and libraries, position-independent or not."""
        return self.interpreter is None and not self.needed

    @property
    def needed(self) -> list[str]:
        """The names of the libraries that the file needs."""
        at = [self._strings + value for tag, value, _ in self._dynamic() if tag == _NEEDED]
        return [os.fsdecode(self._string(start)) for start in at]

    def relocated(self) -> bytes:
        """Return the content, changed to find libraries only beside itself (``$ORIGIN``) or by its program.

        What only debuggers read is left out.
        """
        data = bytearray(self._data)
        for tag, value, at in list(self._dynamic()):
            if tag in (_RPATH, _RUNPATH):
                self._relocate(data, at, self._strings + value)
        return bytes(self._stripped(data))

    def _relocate(self, data: bytearray, entry: int, text: int) -> None:
        """Replace a search path by an RPATH of its ``$ORIGIN`` parts; a RUNPATH would hide the program's."""
        old = self._string(text)
        own = b":".join(each for each in old.split(b":") if each.startswith((b"$ORIGIN", b"${ORIGIN}")))
        data[text : text + len(old)] = own.ljust(len(old), b"\0")
        if own:
            _ENTRY.pack_into(data, entry, _RPATH, text - self._strings)
        else:
            _ENTRY.pack_into(data, entry, *self._harmless)

    @property
    def _harmless(self) -> tuple[int, int]:
        """An entry that replaces one which is to have no effect: a second one for the string table."""
        for tag, value, _ in self._dynamic():
            if tag == _STRTAB:
                return tag, value
        raise ValueError("the ELF file has no string table")

    def _stripped(self, data: bytearray) -> bytearray:
        """Cut what is behind the last segment, such as debugging information, since it is never loaded."""
        end = max((offset + size for _, _, offset, _, _, size, _, _ in self._segments), default=0)
        struct.pack_into("<Q", data, 40, 0)  # no section headers
        struct.pack_into("<HH", data, 60, 0, 0)
        return data[:end]

    @property
    def _strings(self) -> int:
        """The offset of the string table in the file."""
        _, address = self._harmless
        for kind, _, offset, start, _, size, _, _ in self._segments:
            if kind == _LOAD and start <= address < start + size:
                return int(address - start + offset)
        raise ValueError("the string table of the ELF file is in no loadable segment")

    def _string(self, start: int) -> bytes:
        return self._data[start : self._data.index(0, start)]

    def _dynamic(self) -> Iterator[tuple[int, int, int]]:
        """Yield each entry of the dynamic section: tag, value and offset in the file."""
        for start, data in self._of_type(_DYNAMIC):
            for at in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
                tag, value = _ENTRY.unpack_from(data, at)
                if tag == _NULL:
                    return
                yield tag, value, start + at

    def _of_type(self, wanted: int) -> Iterator[tuple[int, bytes]]:
        for kind, _, offset, _, _, size, _, _ in self._segments:
            if kind == wanted:
                yield offset, self._data[offset : offset + size]


def is_elf(path: Path) -> bool:
    """Return whether a file is an ELF program, library or extension module."""
    with path.open("rb") as file:
        return file.read(4) == _IDENTITY[:4]


def read_elf(path: Path) -> Elf:
    """Read the ELF file at a path. Raises `CannotBundle` if it cannot be bundled."""
    try:
        elf = Elf(path.read_bytes())
        elf.relocated()
    except (OSError, ValueError) as error:
        raise CannotBundle(f"cannot bundle {path}: {error}") from None
    return elf
