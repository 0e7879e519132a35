"""The bundle as the two containers of a pod know it: where it is, and what its launcher hands over."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VOLUME = "/usr/local/pai"
"""Where the pod's volume is mounted in both containers."""

PREFIX = f"{VOLUME}/bundle"
"""Where the bundle is: its programs and libraries find each other by this path."""

TOOLS = "applets"
"""The directory in the bundle with a shell and the usual programs."""

LAUNCHER = f"{VOLUME}/runtime"
"""The command of the task container."""

CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where images have CA certificates: Debian and Alpine, Red Hat, SUSE, others."""

CONTENTS = "bundle.json"
"""The file in the bundle that says what is in it."""

BUNDLED_CERTIFICATES = f"{PREFIX}/ssl/cert.pem"
"""For images that have none."""

RENAMED_NAMES = (
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "LANG",
    "LANGUAGE",
    "LOCPATH",
    "NLSPATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
)
RENAMED_PREFIXES = ("LC_", "LD_", "MALLOC_")
"""Variables of an image that would change what the bundle's own programs do."""

RENAMED = "PAI_IMAGE_"
"""The launcher puts this before their names, so that they have no effect on the bundle's interpreter."""

_LAUNCHERS = ("LC_ALL", "OLDPWD", "PWD", "SHLVL", "_")
"""Set by the launcher, or by the shell that runs it."""


def image_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that the container has begun with, from the one that the launcher hands over."""
    kept = {name: value for name, value in environment.items() if name not in _LAUNCHERS}
    back = {name: name.removeprefix(RENAMED) for name in kept if name.startswith(RENAMED)}
    back = {name: own for name, own in back.items() if is_renamed(own)}
    return {back.get(name, name): value for name, value in kept.items()}


def is_renamed(name: str) -> bool:
    """Whether the launcher renames the variable."""
    return name in RENAMED_NAMES or name.startswith(RENAMED_PREFIXES)
