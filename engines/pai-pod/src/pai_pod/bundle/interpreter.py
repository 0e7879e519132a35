"""The running interpreter in a bundle, with the parts of the standard library that tasks may need."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pai_pod.bundle.elf import is_elf, read_elf
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.files import copy_file, files_below, write_file
from pai_pod.bundle.libraries import LIBRARIES, Libraries
from pai_task.paths import BUNDLE

_VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
STANDARD_LIBRARY = f"{LIBRARIES}/{_VERSION}"
"""The path of the standard library, relative to the directory above that of the program."""
SEARCH_PATH = (f"{BUNDLE}/{STANDARD_LIBRARY}", f"{BUNDLE}/{STANDARD_LIBRARY}/lib-dynload")

PROGRAM = "bin/python3"

_LEFT_OUT = {
    "__pycache__",
    "curses",
    "dist-packages",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "sitecustomize.py",
    "test",
    "tests",
    "tkinter",
    "turtle.py",
    "turtledemo",
    "venv",
}
"""What is left out: tests; parts for Windows, terminals and installation; what others have installed."""
_LEFT_OUT_MODULES = (
    "_ctypes_test",
    "_curses",
    "_dbm",
    "_gdbm",
    "_test",
    "_tkinter",
    "_xx",
    "config-",
    "nis.",
    "readline",
    "xx",
)
"""Prefixes of extension modules that are left out, and of what programs in C are built with."""


def add_interpreter(target: Path) -> Libraries:
    """Copy the interpreter and its standard library into the bundle; return the libraries that both need."""
    program = Path(os.path.realpath(sys.executable))
    loader = read_elf(program).interpreter
    if loader is None or "ld-linux" not in loader:
        raise CannotBundle(
            f"cannot bundle {program}: expected a Python linked dynamically to glibc, found one"
            f" {f'with the loader {loader}' if loader else 'linked statically'}; use Debian's python3"
        )
    libraries = Libraries(target, loader)
    libraries.add_program(program, target / PROGRAM)
    source = Path(os.__file__).parent
    for path in _standard_library(source):
        add_module(path, target / STANDARD_LIBRARY / path.relative_to(source), libraries)
    # Found first where the interpreter looks for its library; else it looks in /usr/local, too.
    write_file(target / LIBRARIES / f"{_VERSION.replace('.', '')}.zip", b"")
    libraries.add_opened()
    return libraries


def add_module(source: Path, path: Path, libraries: Libraries, own: Path | None = None) -> None:
    """Copy a file of a package; with an extension module also its libraries, except those below `own`."""
    if ".so" in source.suffixes and is_elf(source):
        libraries.add_those_of(source, own)
        write_file(path, read_elf(source).relocated(), 0o755)
    else:
        copy_file(source, path)


def _standard_library(folder: Path) -> Iterator[Path]:
    for path in files_below(folder):
        parts = path.relative_to(folder).parts
        if not _LEFT_OUT.intersection(parts) and not any(
            part.startswith(_LEFT_OUT_MODULES) for part in parts
        ):
            yield path
