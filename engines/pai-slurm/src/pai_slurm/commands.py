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


class Call:
    """A command that has been started, so that others run meanwhile, or whoever wants its answer goes on.

    `text` is its standard input, and `environment` what it has besides the place of Slurm's configuration.
    """

    def __init__(
        self, name: str, *args: str, text: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        self._name = name
        self._started: subprocess.Popen[str] | ClusterError
        if environment is not None:
            given = os.environ.get(_CONFIG)
            environment = {**environment, **({_CONFIG: given} if given else {})}
        try:
            argv = [program(name), *args]
            with os.fdopen(os.memfd_create(name), "wb") as given_text:
                given_text.write(text.encode())
                given_text.seek(0)
                self._started = subprocess.Popen(
                    argv,
                    stdin=given_text,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                )
        except ClusterError as error:
            self._started = error
        except OSError as error:
            self._started = ClusterError(f"{name}: {error.strerror}")

    def answer(self, within: float = _WITHIN) -> str:
        """Return its output. Raises `Refused`, and `ClusterError` if it does not end `within` seconds."""
        if isinstance(self._started, ClusterError):
            raise self._started
        try:
            said, errors = self._started.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            what = f"{self._name} took more than {within:g} seconds"
            raise ClusterError(f"Slurm does not answer: {what}") from None
        finally:
            self.close()
        if self._started.returncode:
            said = server_text(errors.strip(), _MOST_SAID)
            raise Refused(said or f"{self._name} failed with exit code {self._started.returncode}")
        return said

    def close(self) -> None:
        """Kill it if it still runs: nobody wants its answer any more."""
        if isinstance(self._started, subprocess.Popen):
            with self._started as started:
                started.kill()


def call(
    name: str,
    *args: str,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    within: float = _WITHIN,
) -> str:
    """Run a command, and return its output, as `Call` does."""
    return Call(name, *args, text=text, environment=environment).answer(within)
