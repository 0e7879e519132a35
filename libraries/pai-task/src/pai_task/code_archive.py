"""The archive by which the code of a job comes to a task: its limits and its name.

On a storage, it is in the directory `STORED_IN`, under the name of its digest.
"""

from __future__ import annotations

import errno
import os
import re
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

ARCHIVE = "code.tar.gz"
"""The name of an archive where it has no other."""
MOST_BYTES = 64 * 1024 * 1024
"""Maximum size of all files of an archive."""
MOST_STORED = 512 * 1024 * 1024
"""Maximum bytes of an archive on a storage, and of all its files."""
MOST_ENTRIES = 50_000
"""Maximum number of files, directories and links; empty ones take very little of an archive."""
STORED_IN = "pai-code"
"""The directory of the archives on a storage."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags of `os.open` that create a new file, and fail if the name exists."""

_PIECE = 64 * 1024
_DIGEST = re.compile("sha256:([0-9a-f]{64})")


def code_digest(archive: bytes) -> str:
    """Return the digest by which an archive is known."""
    return f"sha256:{sha256(archive).hexdigest()}"


def stored_name(digest: str) -> str:
    """Return the name of an archive on a storage, by its digest; empty for what is no digest."""
    match = _DIGEST.fullmatch(digest)
    return f"{match[1]}.tar.gz" if match else ""


def pieces(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield an archive, or a part of one, piece by piece. Raises OSError, also beyond `most` bytes."""
    size = 0
    while data := file.read(_PIECE):
        size += len(data)
        if size > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", ARCHIVE)
        yield data
