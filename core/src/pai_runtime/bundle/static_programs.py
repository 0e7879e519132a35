"""Static programs in a bundle: the launcher's shell, and what images may have none of."""

import subprocess
from pathlib import Path

from pai_runtime.bundle.elf import read_elf
from pai_runtime.bundle.errors import CannotBundle
from pai_runtime.bundle.files import copy_file
from pai_runtime.task.bundle import TOOLS

PROGRAMS = {
    "bash": ("bash-static", ("/bin/bash-static", "/usr/bin/bash-static")),
    "busybox": ("busybox-static", ("/bin/busybox", "/usr/bin/busybox")),
}
"""By their names in the bundle: the Debian package, and where the program may be."""


def add_static_programs(target: Path) -> None:
    """Copy them; raises `CannotBundle` where this machine has none that is static."""
    for name, (package, places) in PROGRAMS.items():
        found = [Path(place) for place in places if Path(place).exists()]
        if not found or not read_elf(found[0]).is_static:
            what = f"{found[0]} is not linked statically" if found else f"this machine has no {places[0]}"
            raise CannotBundle(f"{what}; on Debian: apt-get install {package}")
        copy_file(found[0], target / "bin" / name)
    listed = subprocess.run([target / "bin/busybox", "--list"], env={}, stdout=subprocess.PIPE, check=True)
    (target / TOOLS).mkdir()
    (target / TOOLS / "bash").symlink_to("../bin/bash")
    for applet in listed.stdout.decode().split():
        (target / TOOLS / applet).symlink_to("../bin/busybox")
