"""This machine's CA certificates, for images that have none."""

import ssl
from pathlib import Path

from pai_runtime.bundle.errors import CannotBundle
from pai_runtime.bundle.files import copy_file
from pai_runtime.task.bundle import BUNDLED_CERTIFICATES, CERTIFICATES, PREFIX


def add_certificates(target: Path) -> None:
    """Copy this machine's CA certificates. Raises `CannotBundle` if it has none."""
    places = [ssl.get_default_verify_paths().cafile, *CERTIFICATES]
    found = next((Path(place) for place in places if place and Path(place).is_file()), None)
    if found is None:
        raise CannotBundle("this machine has no CA certificates; on Debian: apt-get install ca-certificates")
    copy_file(found, target / BUNDLED_CERTIFICATES.removeprefix(f"{PREFIX}/"))
