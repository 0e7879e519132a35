"""Copying of files into a bundle, with nothing but their content and executability."""

import os
from collections.abc import Iterator
from pathlib import Path


def write_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a new file, whatever the umask; its directories are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)


def copy_file(source: Path, path: Path) -> None:
    """Copy a file, or the target of a link; it is executable if the source is."""
    is_program = bool(source.stat().st_mode & 0o100)
    write_file(path, source.read_bytes(), 0o755 if is_program else 0o644)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield all files and links below a directory, sorted; links to directories are not followed."""
    for above, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if (Path(above) / name).is_symlink()]
        yield from (Path(above) / name for name in sorted(names + links))
