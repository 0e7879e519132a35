"""The directories of a pod, by the variables that name them, with the platform's defaults."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pai_runtime.task.bundle import VOLUME
from pai_runtime.task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UID = re.compile("[A-Za-z0-9][A-Za-z0-9-]{0,100}")
_NO_UID = "pod"
"""In the place of a pod's UID, where nobody says it: the platform does."""


class BadDirectory(ValueError):
    """A variable that names no directory; the message says which one."""


@record(frozen=True)
class Directories:
    """`volume` is what the containers of the pod share.

    `runtime` is the task's directory, `init` the working directory of init plugins that are commands, `logs`
    that of this pod's logs. `config` and the others are mounted by the platform, if it has anything for them.
    """

    volume: Path
    config: Path
    init: Path
    runtime: Path
    logs: Path
    secrets: Path
    user_secrets: Path
    token: Path

    @property
    def configs(self) -> tuple[Path, Path]:
        """Where configuration is looked for: pods that were made by hand have it on the volume."""
        return self.config, self.volume / "config"

    def variables(self) -> dict[str, str]:
        """The variables that name them, for those who do not know the defaults."""
        return {name: str(vars(self)[field]) for name, field in _VARIABLES.items()}


_VARIABLES = {
    "PAI_WORK_DIR": "volume",
    "PAI_CONFIG_DIR": "config",
    "PAI_INIT_DIR": "init",
    "PAI_RUNTIME_DIR": "runtime",
    "PAI_LOG_DIR": "logs",
    "PAI_SECRET_DIR": "secrets",
    "PAI_USER_EXTENSION_SECRET_DIR": "user_secrets",
    "PAI_TOKEN_SECRET_DIR": "token",
}


def pod_directories(environment: Mapping[str, str]) -> Directories:
    """Those that the environment names; one that is set to nothing is unset. Raises `BadDirectory`.

    The volume and the task's directory are emptied, so they must not have anything else in them.
    """

    def named(variable: str, default: Path) -> Path:
        path = Path(environment.get(variable) or default)
        if not path.is_absolute() or ".." in path.parts:
            raise BadDirectory(f"{variable}: expected an absolute path without '..', found {str(path)!r}")
        return path

    uid = environment.get("FC_POD_UID") or _NO_UID
    if not _UID.fullmatch(uid):
        raise BadDirectory(f"FC_POD_UID: expected letters, digits and '-', found {uid[:100]!r}")
    volume = named("PAI_WORK_DIR", Path(VOLUME))
    if Path(sys.prefix).is_relative_to(volume):
        raise BadDirectory(
            f"PAI_WORK_DIR: expected the pod volume, found the runtime's own directory {str(volume)!r}"
        )
    found = Directories(
        volume=volume,
        config=named("PAI_CONFIG_DIR", Path("/usr/local/pai-config")),
        init=named("PAI_INIT_DIR", volume / "init.d"),
        runtime=named("PAI_RUNTIME_DIR", volume / "runtime.d"),
        logs=named("PAI_LOG_DIR", volume / "logs" / uid),
        secrets=named("PAI_SECRET_DIR", volume / "secrets"),
        user_secrets=named("PAI_USER_EXTENSION_SECRET_DIR", volume / "user-extension-secrets"),
        token=named("PAI_TOKEN_SECRET_DIR", volume / "token-secrets"),
    )
    for name, field in _VARIABLES.items():
        other: Path = vars(found)[field]
        if field != "runtime" and other.is_relative_to(found.runtime):
            expected = f"PAI_RUNTIME_DIR: expected a directory without {name} in it"
            raise BadDirectory(f"{expected}, found {str(found.runtime)!r}")
    return found
