"""The command line of Podman or Docker: how it is found, called, and what it says of this machine."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pai_runtime.engine import CannotRun
from pai_runtime.engine.messages import printable

PROGRAMS: Final = ("podman", "docker")
"""What ``auto`` looks for, in this order."""
LIMITS: Final = frozenset(("memory", "cpu"))
"""The resources of a container that are limited where that is possible."""

_WITHIN: Final = 60.0
_MOST_SAID: Final = 600
"""Maximum characters of an error message of the program that are shown."""
_ERRORS: Final = ("Error: ", "docker: ")
"""The beginnings of its error messages, among warnings and advice."""
_ITS_OWN: Final = (
    *("CONTAINER", "DOCKER_", "PODMAN_", "BUILDAH_", "REGISTRY_", "STORAGE_", "NETAVARK_", "XDG_"),
    *("SSL_CERT_", "DBUS_SESSION_"),
)
"""The beginnings of the names of variables that these programs heed."""
_USUAL: Final = frozenset(("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "SSH_AUTH_SOCK"))
_PROXIES: Final = frozenset(("http_proxy", "https_proxy", "all_proxy", "no_proxy"))


class ProgramFailed(Exception):
    """The exception for a call that failed; the text is what the program said."""


@dataclass(frozen=True)
class Client:
    """The program at `path`, which is Podman or Docker as `kind` says.

    `is_rootless` means that root in a container is the user outside. `limits` are the resources of a
    container that can be limited here, of `LIMITS`.
    """

    kind: str
    path: str
    is_rootless: bool
    limits: frozenset[str]

    def call(self, *args: str, seconds: float | None = _WITHIN, environment: Mapping[str, str] = {}) -> str:
        """Run the program, and return what it prints. Raises `ProgramFailed`."""
        return _call([self.path, *args], seconds, environment)


def open_client(program: str) -> Client:
    """Return the client of this name, or for ``auto`` the first that is installed. Raises `CannotRun`."""
    wanted = PROGRAMS if program == "auto" else (program,)
    found = next(((kind, path) for kind in wanted if (path := shutil.which(kind))), None)
    if found is None:
        names = " or ".join(wanted)
        raise CannotRun(
            f"there is no {names} on the PATH, and --container needs it; install it, such as by "
            f"apt-get install {wanted[0] if wanted[0] == 'podman' else 'docker.io'}"
        )
    kind, path = found
    try:
        told = json.loads(_call([path, "info", "--format", _INFO[kind]], _WITHIN))
        return _OPEN[kind](path, told)
    except ProgramFailed as error:
        raise CannotRun(f"{kind} cannot be used: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CannotRun(f"'{kind} info' says what is not expected of it: {error!r}") from None


def _podman(path: str, told: Mapping[str, Any]) -> Client:
    host = told["host"]
    controllers = host["cgroupControllers"] or ()
    # Without root, version 1 of cgroups can limit nothing, and Podman would say so for each task.
    is_rootless = host["security"]["rootless"] is True
    can_limit = not is_rootless or host["cgroupVersion"] == "v2"
    return Client("podman", path, is_rootless, LIMITS.intersection(controllers if can_limit else ()))


def _docker(path: str, told: Mapping[str, Any]) -> Client:
    if errors := told.get("ServerErrors"):
        raise ProgramFailed(_shown("; ".join(map(str, errors))))
    known = {"memory": told["MemoryLimit"], "cpu": told["CpuCfsQuota"]}
    limits = frozenset(name for name, is_there in known.items() if is_there)
    is_rootless = any("rootless" in str(each) for each in told["SecurityOptions"] or ())
    return Client("docker", path, is_rootless, limits)


_INFO: Final = {"podman": "json", "docker": "{{json .}}"}
_OPEN: Final = {"podman": _podman, "docker": _docker}


def own_environment() -> dict[str, str]:
    """Return the variables of ours that the program gets: not those that may be meant for the tasks."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _USUAL or name.lower() in _PROXIES or name.startswith(_ITS_OWN)
    }


def _call(argv: Sequence[str], seconds: float | None, environment: Mapping[str, str] = {}) -> str:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            env={**own_environment(), **environment},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProgramFailed(f"'{' '.join(argv[1:3])}' took longer than {seconds:.0f} seconds") from None
    except OSError as error:
        raise ProgramFailed(f"{argv[0]}: {error.strerror}") from None
    if done.returncode:
        raise ProgramFailed(said(done.stderr) or f"it ended with exit status {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def said(stderr: bytes) -> str:
    """Return the error among what the program has said, in one line that is safe for a terminal."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    errors = [line for line in lines if line.startswith(_ERRORS)]
    return _shown((errors or lines or [""])[-1].removeprefix("Error: "))


def _shown(text: str) -> str:
    return printable(text[-_MOST_SAID:])
