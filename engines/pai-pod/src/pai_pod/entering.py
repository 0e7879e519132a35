"""Programs that people run in a task of a pod: what runs beside the task, and has its supervisor start them.

It has the standard streams that the container runtime gave it, and passes them on: a terminal is then the
program's, with its keys and its size.
"""

from __future__ import annotations

import sys

from pai_task.exit_codes import CANNOT_RUN, killed_by
from pai_task.folder import Folder
from pai_task.paths import LAUNCHER
from pai_task.session import MOST_MESSAGE
from pai_task.session_socket import ask, connect, read_answer
from pai_task.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ENTER = "enter"
"""The first argument of the launcher for this; the type of the terminal and the program follow."""

_STANDARD = (0, 1, 2)


def enter_argv(terminal: str, argv: Sequence[str]) -> list[str]:
    """Return the command line, in a task's container, that runs a program in the task as `enter` does."""
    return [LAUNCHER, ENTER, terminal, *argv]


def enter(path: str, terminal: str, argv: Sequence[str]) -> int:
    """Run a program, or a shell, in the task whose folder is at `path`, and return its exit status.

    `terminal` is the value of ``TERM``, empty if the program gets no terminal.
    """
    try:
        with Folder.at(path) as folder:
            connection = connect(folder)
    except (FileNotFoundError, ConnectionRefusedError):
        return _cannot(
            "it does not run yet, or its runtime is of an older version; exec needs a task that runs"
        )
    except OSError as error:
        return _cannot(f"cannot reach its supervisor: {error.strerror}")
    if terminal:
        _leave_terminal()
    try:
        ask(
            connection,
            argv,
            _STANDARD,
            terminal=bool(terminal),
            variables={"TERM": terminal} if terminal else {},
        )
        answer = connection.recv(MOST_MESSAGE)
        if not answer:
            return killed_by(signal.SIGKILL)  # with all that is left of a task when it ends
        code, message = read_answer(answer)
    except (OSError, ValueError) as error:
        return _cannot(str(error))
    return code if message is None else _cannot(message, code)


def _leave_terminal() -> None:
    """Give up our controlling terminal, so that the program can have it; what that sends us is blocked."""
    import termios  # noqa: PLC0415 - not for those without a terminal
    from fcntl import ioctl  # noqa: PLC0415 - as above

    try:
        ioctl(0, termios.TIOCNOTTY)
    except OSError:
        pass  # it is not ours


def _cannot(why: str, code: int = CANNOT_RUN) -> int:
    sys.stderr.write(f"pai-runtime: {why}\n")
    return code
