"""The directories of a pod, from the variables that name them, with the platform's defaults."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pai_task.interpreter import search_path
from pai_task.paths import BUNDLE, CODE, CONFIG, LAUNCHER, TASK_FOLDER, VOLUME
from pai_task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UID = re.compile("[A-Za-z0-9][A-Za-z0-9-]{0,100}")
_NO_UID = "pod"
"""The name in the place of an unknown UID; the platform tells it."""


class BadDirectory(ValueError):
    """The exception for a variable that names no usable directory."""


@record(frozen=True)
class Directories:
    """The directories of a pod; `volume` is what its containers share.

    `runtime` is the task's directory, `init` the working directory of init plugins that are commands, `logs`
    that of this pod's logs. `config` and the others are mounted by the platform, if it has anything for them;
    `packed_code` contains the parts of an archive of the job's code.
    """

    volume: Path
    config: Path
    init: Path
    runtime: Path
    logs: Path
    secrets: Path
    user_secrets: Path
    token: Path
    packed_code: Path

    @property
    def configs(self) -> tuple[Path, Path]:
        """The directories that are searched for configuration; pods made by hand have it on the volume."""
        return self.config, self.volume / "config"

    def variables(self) -> dict[str, str]:
        """Return the variables that name the directories, for programs that do not know the defaults."""
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
    "PAI_CODE_DIR": "packed_code",
}

_WRITTEN = ("PAI_INIT_DIR", "PAI_RUNTIME_DIR", "PAI_LOG_DIR")
_FIXED = tuple(Path(path).name for path in (BUNDLE, LAUNCHER))


def pod_directories(environment: Mapping[str, str]) -> Directories:
    """Return the directories that the environment names; an empty variable is unset. Raises `BadDirectory`.

    A directory that init empties, moves or replaces must not contain anything else.
    """

    def named(variable: str, default: Path) -> Path:
        path = Path(re.sub("^/+", "/", environment.get(variable) or str(default)))
        if not path.is_absolute() or ".." in path.parts:
            raise BadDirectory(f"{variable}: expected an absolute path without '..', found {str(path)!r}")
        return path

    # OpenPAI mounts the logs of a node, and looks there by this UID; no step can say so, as each logs there.
    uid = environment.get("FC_POD_UID") or _NO_UID
    if not _UID.fullmatch(uid):
        raise BadDirectory(f"FC_POD_UID: expected letters, digits and '-', found {uid[:100]!r}")
    volume = named("PAI_WORK_DIR", Path(VOLUME))
    found = Directories(
        volume=volume,
        config=named("PAI_CONFIG_DIR", Path(CONFIG)),
        init=named("PAI_INIT_DIR", volume / "init.d"),
        runtime=named("PAI_RUNTIME_DIR", volume / Path(TASK_FOLDER).name),
        logs=named("PAI_LOG_DIR", volume / "logs" / uid),
        secrets=named("PAI_SECRET_DIR", volume / "secrets"),
        user_secrets=named("PAI_USER_EXTENSION_SECRET_DIR", volume / "user-extension-secrets"),
        token=named("PAI_TOKEN_SECRET_DIR", volume / "token-secrets"),
        packed_code=named("PAI_CODE_DIR", Path(CODE)),
    )
    _check(found)
    return found


def _own() -> list[Path]:
    """Return the directories that contain the runtime.

    Its interpreter was started without `site`, and so does not know of its virtual environment.
    """
    own = (sys.prefix, sys.base_prefix, str(Path(sys.executable).parent), *search_path())
    return [Path(each).resolve() for each in own]


def _check(found: Directories) -> None:
    """Raise `BadDirectory` if emptying, moving or replacing a directory would affect something else."""
    paths = {name: Path(vars(found)[field]) for name, field in _VARIABLES.items()}
    for name in ("PAI_WORK_DIR", *_WRITTEN):
        if any(each.is_relative_to(paths[name].resolve()) for each in _own()):
            raise BadDirectory(f"{name}: expected a directory of the pod's own, found {str(paths[name])!r}")
    written = {name: paths[name] for name in _WRITTEN}
    written |= {f"the runtime's own {name!r}": found.volume / name for name in _FIXED}
    for name, path in paths.items():
        for other, place in written.items():
            if name != other and path.is_relative_to(place):
                raise BadDirectory(
                    f"{name}: expected a directory that is not in {other}, found {str(path)!r}"
                )
