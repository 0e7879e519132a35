"""The user's ``marketplace.yaml``, as the commands that change it read and write it."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pai_definitions.configuration import user_configuration
from pai_document.document import read_text
from pai_runtime.definitions import NoDefinition
from pai_task import atomic_write


@contextmanager
def own_configuration() -> Iterator[Path]:
    """Give the path of the configuration, locked against concurrent changes. Raises `NoDefinition`.

    Its directory is created if missing.
    """
    path = user_configuration()
    if path is None:
        raise NoDefinition(
            "no-such-source", "there is no home directory, and so no marketplace.yaml of yours"
        )
    folder = path.resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(fd)


def configuration_text(path: Path) -> str:
    """Return the text of the configuration; empty if it does not exist."""
    return read_text(path) if path.exists() else ""


def write_configuration(path: Path, text: str) -> None:
    """Write the configuration; through a link, its target."""
    path = path.resolve()
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    holder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        atomic_write.write(holder, path.name, text.encode(), mode, sync=True)
    finally:
        os.close(holder)
