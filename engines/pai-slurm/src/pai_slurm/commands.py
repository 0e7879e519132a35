"""The commands of Slurm, each within a time limit: without a controller they hang."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from pai_runtime.engine import ClusterError
from pai_runtime.engine.messages import server_text

_WITHIN: Final = 30.0
_CONFIG: Final = "SLURM_CONF"
_MOST_SAID: Final = 2000


class Refused(ClusterError):
    """The exception for a command that Slurm has refused; the text is what it said."""


def program(name: str) -> str:
    """Return the path of a command. Raises `ClusterError` if it is not installed here."""
    path = shutil.which(name)
    if path is None:
        raise ClusterError(f"there is no {name} here; Slurm's commands are on its login nodes")
    return path


def call(
    name: str,
    *args: str,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    within: float = _WITHIN,
) -> str:
    """Run a command, and return its output.

    `text` is its standard input, and `environment` what it has besides the place of
    Slurm's configuration. Raises `Refused`, and `ClusterError` if it does not answer `within` seconds.
    """
    argv = [program(name), *args]
    if environment is not None:
        given = os.environ.get(_CONFIG)
        environment = {**environment, **({_CONFIG: given} if given else {})}
    try:
        done = subprocess.run(
            argv,
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"Slurm does not answer: {name} took more than {within:g} seconds") from None
    except OSError as error:
        raise ClusterError(f"{argv[0]}: {error.strerror}") from None
    if done.returncode:
        said = server_text(done.stderr.strip(), _MOST_SAID)
        raise Refused(said or f"{name} failed with exit code {done.returncode}")
    return done.stdout
