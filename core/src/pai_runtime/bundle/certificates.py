"""The certificates of this machine's authorities, for images that have none."""

import ssl
from pathlib import Path

from pai_runtime.bundle.errors import CannotBundle
from pai_runtime.bundle.files import copy_file

CERTIFICATES = "ssl/cert.pem"
"""Their file in the bundle."""

PLACES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where distributions of Linux have theirs: Debian and Alpine, Red Hat, SUSE, others."""


def add_certificates(target: Path) -> None:
    """Copy them; raises `CannotBundle` where this machine has none."""
    places = [ssl.get_default_verify_paths().cafile, *PLACES]
    found = next((Path(place) for place in places if place and Path(place).is_file()), None)
    if found is None:
        raise CannotBundle("this machine has no certificates; on Debian: apt-get install ca-certificates")
    copy_file(found, target / CERTIFICATES)
