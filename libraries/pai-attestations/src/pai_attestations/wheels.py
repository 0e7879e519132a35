"""Wheels in a directory, and what an installer makes of one."""

import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from pai_attestations.verification import NotVerified
from pai_runtime.command.policies import Code, Distribution

MOST_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of a wheel, and of all that is in it."""

_MOST_FILES: Final = 50_000


def wheels_of(distribution: str, version: str, directory: Path) -> Iterator[Path]:
    """Yield the wheels in a directory of a version of a distribution, by name. Raises `NotVerified`."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 - names are all that is needed
        wanted = canonicalize_name(distribution), Version(version)
    except OSError as error:
        raise NotVerified(f"{directory}: {error.strerror}") from None
    except InvalidVersion as error:
        raise NotVerified(f"{distribution}: {error}") from None
    for name in names:
        try:
            found = parse_wheel_filename(name)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if found[:2] == wanted:
            yield directory / name


def read(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes. Raises `NotVerified`, and FileNotFoundError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise NotVerified(f"{path}: not a regular file")
            data = file.read(most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotVerified(f"{path}: {error.strerror}") from None
    if len(data) > most:
        raise NotVerified(f"{path}: larger than {most} bytes")
    return data


def installed_digest(wheel: bytes) -> str:
    """Return the digest of the code of a wheel once it is installed. Raises `NotVerified`."""
    try:
        with zipfile.ZipFile(BytesIO(wheel)) as archive, tempfile.TemporaryDirectory() as folder:
            members = archive.infolist()
            size = sum(each.file_size for each in members)
            tops = {each.filename.partition("/")[0] for each in members}
            # What is in *.data, an installer puts elsewhere.
            if len(members) <= _MOST_FILES and size <= MOST_BYTES and not any(map(_is_data, tops)):
                (info,) = (top for top in tops if top.endswith(".dist-info"))
                archive.extractall(folder)
                return Code(Distribution(folder, info)).digest
    except Exception as error:  # noqa: BLE001 - `zipfile` and its decoders raise whatever they like
        raise NotVerified(f"it is no wheel that can be read: {error}") from None
    limits = f"more than {_MOST_FILES} files or {MOST_BYTES} bytes in it"
    raise NotVerified(f"it cannot be compared with what is installed: it has a directory *.data, or {limits}")


def _is_data(name: str) -> bool:
    return name.endswith(".data")
