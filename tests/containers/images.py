"""Users' images as trees of files: no registry can be reached where these tests run.

Each function fills an empty folder.
"""

import os
import shutil
import subprocess
from pathlib import Path

_BUSYBOX = Path("/bin/busybox")
_FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "usr/local")
_PASSWD = "root:x:0:0:root:/root:/bin/sh\n"
_MUSL_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    printf("musl:%s\n", argc > 1 ? getenv(argv[1]) : "");
    return 0;
}
"""


def busybox(folder: Path) -> None:
    """Nothing but busybox and its applets."""
    _make(folder, *_FOLDERS, "bin", "root")
    shutil.copy(_BUSYBOX, folder / "bin/busybox")
    subprocess.run(["chroot", folder, "/bin/busybox", "--install", "-s", "/bin"], check=True)
    (folder / "etc/passwd").write_text(_PASSWD)
    (folder / "tmp").chmod(0o1777)


def empty(folder: Path) -> None:
    """Nothing at all."""
    del folder


def scratch(folder: Path) -> None:
    """One static program, and not even an empty folder beside it."""
    shutil.copy(_BUSYBOX, folder / "busybox")


def musl(folder: Path) -> None:
    """Alpine's layout: musl is the C library, ``/bin/sh`` is busybox, and a program is linked with musl."""
    busybox(folder)
    _make(folder, "lib", "usr/bin", "etc/apk")
    library = Path("/lib/x86_64-linux-musl/libc.so")
    shutil.copy(library, folder / "lib/ld-musl-x86_64.so.1")
    (folder / "lib/libc.musl-x86_64.so.1").symlink_to("ld-musl-x86_64.so.1")
    (folder / "etc/os-release").write_text("ID=alpine\n")
    source = folder / "hello.c"
    source.write_text(_MUSL_PROGRAM)
    subprocess.run(["musl-gcc", "-o", folder / "usr/bin/hello", source], check=True)
    source.unlink()


def bullseye(folder: Path) -> None:
    """Debian 11, which has an older C library than we have."""
    made = kept("bullseye", "bullseye", "?essential")
    folder.rmdir()
    folder.symlink_to(made)


def kept(suite: str, name: str, *packages: str) -> Path:
    """A release of Debian with some packages, by a name of its own, made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pai-runtime-tests"
    made = cache / name
    if not made.exists():
        cache.mkdir(parents=True, exist_ok=True)
        new = cache / f"{name}.{os.getpid()}"
        # Its packages are unpacked and not configured, which is enough.
        included = (f"--include={each}" for each in packages)
        argv = ["mmdebstrap", "--quiet", "--variant=extract", *included, suite, str(new)]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        for unused in ("usr/share/doc", "usr/share/locale"):
            shutil.rmtree(new / unused)
        new.rename(made)
    return made


def _make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
