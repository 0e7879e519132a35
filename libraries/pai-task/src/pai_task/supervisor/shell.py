"""The shell around a step's script, and around the user's command.

The script itself is handed over in an open file without a name, so that no text of it, and no secret in
it, is ever in an argv or on disk. It is read whole before its first line runs.
"""

from __future__ import annotations

import os

from pai_task.exit_codes import NOT_EXECUTED
from pai_task.memfd import SCRIPT_END, SCRIPT_FD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pai_task.plan import Plan

    Files = Mapping[str, int]
    """Descriptors that a process is started with, by the variables that tell it where what they are is."""


class NoShell(Exception):
    """The exception for an image that has neither bash nor sh."""


class Shell:
    """The task's shell, at `path`: the image's bash, else its sh, else that among our own `tools`.

    `search_path` is where it finds programs; it includes ours only if the image has no shell.
    """

    reads_script = True

    def __init__(self, environment: Mapping[str, str], tools: str | None = None) -> None:
        own = environment.get("PATH", os.defpath)
        both = f"{own}{os.pathsep}{tools}" if tools else own
        shell = which("bash", own) or which("sh", own)
        self.search_path = own if shell else both
        shell = shell or which("bash", both) or which("sh", both)
        if shell is None:
            raise NoShell(
                f"neither bash nor sh was found on PATH ({own}): the commands cannot be run; "
                f"add one to the image, or let the command be one program with its arguments"
            )
        self.path = shell
        self._argv = [shell, "-c"]
        self._cat_path = f"{tools}{os.pathsep}{both}" if tools else both
        self._stop_at_error = "set -eo pipefail" if os.path.basename(shell) == "bash" else "set -e"

    def command(self, name: str, *, stop_at_error: bool, nounset: bool = False) -> list[str]:
        """Return an argv that runs the script at `SCRIPT_FD`, with its exit status; `name` is its ``$0``."""
        options = [*self._options(stop_at_error=stop_at_error), *(["set -u"] if nounset else [])]
        return [*self._argv, "; ".join([*options, _run(self._cat())]), name]

    def step(self, name: str, files: Files, environment_fd: int, *, stop_at_error: bool) -> list[str]:
        """Return an argv as `command` does, which also writes the exported environment to `environment_fd`.

        The environment is also written when the script calls ``exit`` or stops at an error.
        """
        cat = self._cat()
        # On one line, so that the lines of the script are counted from its own first one.
        commands = [
            f"__pai_keep() {{ {cat} /proc/self/environ >/proc/self/fd/{environment_fd} || :; }}",
            "trap __pai_keep EXIT",
            # By the number of the shell, so that what it starts finds them too.
            *(f"export {variable}=/proc/$$/fd/{fd}" for variable, fd in files.items()),
            *self._options(stop_at_error=stop_at_error),
            _run(cat),
            # Once more, in case the script has set a trap of its own in the place of ours.
            "set -- $?; __pai_keep; exit $1",
        ]
        return [*self._argv, "; ".join(commands), name]

    def _cat(self) -> str:
        """Return the program that reads scripts: our own, as long as the task has not removed it."""
        return quoted(which("cat", self._cat_path) or "cat")

    def _options(self, *, stop_at_error: bool) -> list[str]:
        return [self._stop_at_error] if stop_at_error else []


def _run(cat: str) -> str:
    """Return the shell code that runs the script at `SCRIPT_FD`, if `cat` reads all of it."""
    # Not in the argument of eval, where a failure counts for nothing: the script would be empty.
    return (
        f"__pai_script=$({cat} <&{SCRIPT_FD}) || __pai_script=; case $__pai_script in *{SCRIPT_END}) ;; "
        f"*) echo pai-runtime: {quoted(f'{cat} cannot read the script')} >&2; exit {NOT_EXECUTED}; esac; "
        # Not for eval alone: a shell that may not open enough files to take it back says so for ever.
        f"exec {SCRIPT_FD}<&-; "
        f'eval "unset __pai_script; ${{__pai_script%{SCRIPT_END}}}"'
    )


def find_shell(environment: Mapping[str, str], tools: str | None, plan: Plan) -> Shell:
    """Return the shell for the scripts of a plan, or its stand-in without one. Raises `NoShell`."""
    try:
        return Shell(environment, tools)
    except NoShell as missing:
        from pai_task.supervisor.exec_form import ExecForm  # noqa: PLC0415 - hardly ever needed

        return ExecForm(environment, plan, missing)


def which(program: str, path: str) -> str | None:
    """Return the path of a program on a search path; None if it is not there."""
    for folder in path.split(os.pathsep):
        file = f"{folder}/{program}"
        if folder and os.access(file, os.X_OK) and os.path.isfile(file):
            return file
    return None


def quoted(text: str) -> str:
    """Quote a text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def exported(dump: bytes) -> dict[str, str] | None:
    """Parse the environment that a step left, a NUL-separated list.

    Returns None for an empty list: the shell was killed, or replaced itself by ``exec``.
    """
    items = (item.partition("=") for item in os.fsdecode(dump).split("\0") if "=" in item)
    return {name: value for name, _, value in items if name} or None
