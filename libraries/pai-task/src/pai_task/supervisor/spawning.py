"""Start of processes: each in its own session, and killed when its parent dies.

`subprocess` would do, but takes as long to import as all of the supervisor.
"""

from __future__ import annotations

import errno
import os
import stat

from pai_task.exit_codes import NOT_EXECUTED
from pai_task.memfd import SCRIPT_FD, hand_over_script
from pai_task.record import record
from pai_task.signals import signal
from pai_task.supervisor.process_tree import end_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

_STANDARD = (0, 1, 2)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class CannotStart(Exception):
    """The exception for a lack of resources to start a process: open files, processes or memory."""


@record(frozen=True)
class Program:
    """A program to execute: it finds `script`, if any, at `SCRIPT_FD`, and inherits the descriptors `fds`.

    Its standard input is empty unless `stdin` is given; with `terminal`, that is its controlling terminal.
    """

    argv: list[str]
    environment: Mapping[str, str]
    script: bytes | None
    fds: tuple[int, ...] = ()
    stdin: int | None = None
    terminal: bool = False


def spawn(program: Program, stdout: int, stderr: int, umask: int | None = None) -> int:
    """Start a process with two descriptors as its output, and return its process id. Raises `CannotStart`."""
    try:
        hand_over_script(program.script or b"")
        told, tell = os.pipe()  # closed by the kernel once the program has begun
    except OSError as error:
        raise CannotStart(f"{program.argv[0]}: {error.strerror}") from None
    try:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(program, (stdout, stderr), tell, parent, umask)
        os.close(tell)
        tell = -1
        failed = os.read(told, 16)
    except OSError as error:
        raise CannotStart(f"{program.argv[0]}: {error.strerror}") from None
    finally:
        os.close(told)
        if tell >= 0:
            os.close(tell)
    if failed:
        os.waitpid(pid, 0)
        raise CannotStart(f"{program.argv[0]}: {os.strerror(int(failed))}")
    return pid


def open_standard_streams() -> None:
    """Open missing standard streams and `SCRIPT_FD`, before other files take their numbers."""
    while (fd := _open_nothing()) in _STANDARD:
        os.set_inheritable(fd, True)  # noqa: FBT003 - positional only
    os.close(fd)
    hand_over_script(b"")


def has_null() -> bool:
    """Return whether there is a usable ``/dev/null``, the standard input of all processes."""
    try:
        return stat.S_ISCHR(os.stat(os.devnull).st_mode) and os.access(os.devnull, os.R_OK | os.W_OK)
    except OSError:
        return False


def _open_nothing() -> int:
    return os.open(os.devnull, os.O_RDWR) if has_null() else os.memfd_create("pai-runtime nothing")


def keep_open_files() -> None:
    """Make inherited descriptors close-on-exec, except the standard streams: they are not for the task."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in _STANDARD:
            try:
                os.set_inheritable(int(name), False)  # noqa: FBT003 - positional only
            except OSError:
                pass  # the one by which the names were read


def become(
    program: Program, output: tuple[int, int], tell: int, parent: int | None, umask: int | None
) -> NoReturn:
    """Execute the program in the child process; never return into the code of the supervisor.

    It ends with its `parent`, unless that is None. The number of an error is written to `tell`.
    """
    try:
        os.setsid()
        if umask is not None:
            os.umask(umask)
        if parent not in (None, 1):  # PID 1 is the first of a namespace, which ends with it anyway
            end_with_parent()
            if os.getppid() != parent:  # it was gone before the kernel knew
                os._exit(NOT_EXECUTED)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY) if program.stdin is None else program.stdin, 0)
        if program.terminal:
            _take_terminal()
        for fd, standard in zip(output, (1, 2), strict=True):
            os.dup2(fd, standard)
        os.set_inheritable(SCRIPT_FD, program.script is not None)
        for fd in program.fds:
            os.set_inheritable(fd, True)  # noqa: FBT003 - positional only
        os.execve(program.argv[0], program.argv, program.environment)  # noqa: S606 - no shell, as it should
    except OSError as error:
        os.write(tell, b"%d" % (error.errno or errno.EIO))
    except ValueError:  # a NUL in the environment
        os.write(tell, b"%d" % errno.EINVAL)
    finally:
        os._exit(NOT_EXECUTED)


def _take_terminal() -> None:
    """Make standard input the session's controlling terminal, for signals from keys and for job control."""
    from fcntl import ioctl  # noqa: PLC0415 - hardly ever needed
    from termios import TIOCSCTTY  # noqa: PLC0415 - as above

    ioctl(0, TIOCSCTTY, 0)
