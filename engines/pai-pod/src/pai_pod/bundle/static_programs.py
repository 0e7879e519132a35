"""Static programs of a bundle, for images that may lack them.

A static C library loads locales all the same, and code for legacy ones, which is made for another version of
it and fails. So the programs are changed to look where nothing can be: they know no locale but their own.
"""

import re
import subprocess
from pathlib import Path

from pai_pod.bundle.elf import read_elf
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.files import write_file
from pai_task.paths import BUNDLE, TOOLS

PROGRAMS = {
    "bash": ("bash-static", ("/bin/bash-static", "/usr/bin/bash-static")),
    "busybox": ("busybox-static", ("/bin/busybox", "/usr/bin/busybox")),
}
"""The programs by name in the bundle: the Debian package, and paths at which the program may be."""


_IN_FOLDER = re.compile(rb"(?<=\0)/usr/(?:lib|share)(?=(?:/[\w-]+)?/(?:gconv|locale)[\w/.-]*\0)", re.ASCII)
_IN_VARIABLE = re.compile(rb"(?<=\0)(?:G(?=CONV_PATH\0)|L(?=OCPATH\0))")
_NOWHERE = b"/proc/0"


def add_static_programs(target: Path) -> None:
    """Copy the static programs. Raises `CannotBundle` if this machine lacks one that is static."""
    for name, (package, places) in PROGRAMS.items():
        found = [Path(place) for place in places if Path(place).exists()]
        if not found or not read_elf(found[0]).is_static:
            what = f"{found[0]} is not linked statically" if found else f"this machine has no {places[0]}"
            raise CannotBundle(f"{what}; on Debian: apt-get install {package}")
        write_file(target / "bin" / name, without_locales(found[0].read_bytes()), 0o755)
    listed = subprocess.run([target / "bin/busybox", "--list"], env={}, stdout=subprocess.PIPE, check=True)
    tools = target / Path(TOOLS).relative_to(BUNDLE)
    tools.mkdir()
    (tools / "bash").symlink_to("../bin/bash")
    for applet in listed.stdout.decode().split():
        (tools / applet).symlink_to("../bin/busybox")


def without_locales(program: bytes) -> bytes:
    """Return a static program with the GNU C library, changed to find no locales or gconv modules.

    The ends of strings stay as they are, since other strings may share them.
    """
    moved = _IN_FOLDER.sub(lambda found: _NOWHERE.ljust(len(found[0]), b"/"), program)
    return _IN_VARIABLE.sub(b"\0", moved)
