"""The shell around a step's script, and around the user's command.

The script itself is handed over in an open file without a name, so that no text of it, and no secret in
it, is ever in an argv or on disk. It is read whole before its first line runs.
"""

import fcntl
import os
import shlex
import shutil
from collections.abc import Mapping

SCRIPT_FD = 3
"""Where the shell finds the script: one digit, because POSIX shells know no others in a redirection."""

NOT_CARRIED = {"_", "SHLVL", "PWD", "OLDPWD"}
"""What a shell sets for itself: a step's working directory is its own."""

_LOWEST_FD = 60
_NOT_READ = 126

Files = Mapping[str, int]
"""Descriptors that a process is started with, by the variables that tell it where to find what they are."""


class NoShell(Exception):
    """The image has neither bash nor sh."""


class Shell:
    """The task's shell: bash where the image has it, else sh."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        path = environment.get("PATH", os.defpath)
        bash = shutil.which("bash", path=path)
        shell = bash or shutil.which("sh", path=path)
        if shell is None:
            raise NoShell(f"neither bash nor sh was found on PATH ({path}): the commands cannot be run")
        self._argv = [shell, "-c"]
        self._cat = shlex.quote(shutil.which("cat", path=path) or "cat")
        # Not in the argument of eval, where a failure counts for nothing: the script would be empty.
        self._run = (
            f"__pai_script=$({self._cat} <&{SCRIPT_FD}) || exit {_NOT_READ}; "
            f'eval "unset __pai_script; $__pai_script" {SCRIPT_FD}<&-'
        )
        self._stop_at_error = "set -eo pipefail" if bash else "set -e"

    def command(self, name: str, *, stop_at_error: bool) -> list[str]:
        """The argv that runs the script at `SCRIPT_FD` and ends with its status; `name` is its ``$0``."""
        return [*self._argv, "; ".join([*self._options(stop_at_error=stop_at_error), self._run]), name]

    def step(self, name: str, files: Files, environment_fd: int, *, stop_at_error: bool) -> list[str]:
        """The same, leaving the environment that the script exported in `environment_fd`.

        It is left there also when the script calls ``exit`` or stops at an error.
        """
        # On one line, so that the lines of the script are counted from its own first one.
        commands = [
            f"__pai_keep() {{ {self._cat} /proc/self/environ >/proc/self/fd/{environment_fd} || :; }}",
            "trap __pai_keep EXIT",
            # By the number of the shell, so that what it starts finds them too.
            *(f"export {variable}=/proc/$$/fd/{fd}" for variable, fd in files.items()),
            *self._options(stop_at_error=stop_at_error),
            self._run,
            # Once more, in case the script has set a trap of its own in the place of ours.
            "set -- $?; __pai_keep; exit $1",
        ]
        return [*self._argv, "; ".join(commands), name]

    def _options(self, *, stop_at_error: bool) -> list[str]:
        return [self._stop_at_error] if stop_at_error else []


def hand_over_script(script: bytes) -> None:
    """Put a script where the next process that is started finds it; it has a copy of its own there."""
    fd = os.memfd_create("pai-runtime script", 0)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(script)
    os.lseek(fd, 0, os.SEEK_SET)
    if fd != SCRIPT_FD:
        os.dup2(fd, SCRIPT_FD)
        os.close(fd)


def out_of_the_way(fd: int) -> int:
    """The same open file by a number that scripts hardly use themselves."""
    try:
        higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
    except OSError:  # so many files may not be open
        return fd
    os.close(fd)
    return higher


class ScratchFile:
    """A file without a name, in memory, that a child process can be handed by its descriptor."""

    def __init__(self) -> None:
        self.fd = out_of_the_way(os.memfd_create("pai-runtime", 0))

    def write(self, data: bytes) -> None:
        """Replace its content; the next reader begins at the start."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        while data:
            data = data[os.write(self.fd, data) :]
        os.lseek(self.fd, 0, os.SEEK_SET)

    def read(self, most: int) -> bytes:
        """Its content; raises `ValueError` for one of more than `most` bytes."""
        size = os.fstat(self.fd).st_size
        if size > most:
            raise ValueError(f"it left {size} bytes, and at most {most} are read")
        return os.pread(self.fd, size, 0)


def exported(dump: bytes) -> dict[str, str] | None:
    """The environment that a step left, from the NUL-separated list of it.

    None for an empty list: the shell was killed, or replaced itself by ``exec``.
    """
    items = (item.partition("=") for item in os.fsdecode(dump).split("\0") if "=" in item)
    return {name: value for name, _, value in items} or None
