"""A process that runs a task: in namespaces of its own, and told to stop when the engine ends."""

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pai_runtime.engines.local.mounting import REFUSALS, Refused
from pai_runtime.supervisor.process_tree import end_with_parent
from pai_runtime.supervisor.stop import STOP_SIGNALS

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

_SYS_CLONE3 = 435
_CLONE_ARGS = 8
_LOWEST_FD = 10
"""What is handed over keeps clear of the numbers that shells, and scripts in them, use themselves."""
_CANNOT_EXECUTE = 126
_STANDARD = (0, 1, 2)

# Not ctypes.CDLL, which lets go of the interpreter's lock: there must be no doubt who holds it in the child.
_libc = ctypes.PyDLL(None, use_errno=True)


@dataclass(frozen=True)
class Launch:
    """What the process executes. `fds` are descriptors that it inherits: options that end in ``=`` by them.

    `prepare` is called in the process first; it may enter a new root, and says what it could not do by
    `fail`, which ends in an exit code. `pid` is the option for the number by which we know the process.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    fds: Mapping[str, int]
    pid: str
    silent: bool
    namespaces: int
    prepare: Callable[[], None]
    fail: Callable[[OSError], int]


def launch(what: Launch) -> int:
    """Start it; its process id. Raises OSError."""
    parent = _ourselves()
    # Pending until it can listen: the first process of a namespace ignores what it has no handler for.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        pid = fork(what.namespaces)
        if pid == 0:
            _become(what, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for fd in parent:
            os.close(fd)
    return pid


def _ourselves() -> list[int]:
    """A descriptor that can be read once this process is gone; none where the kernel has no such thing."""
    try:
        return [os.pidfd_open(os.getpid())]
    except OSError:
        return []


def fork(namespaces: int) -> int:
    """As `os.fork`, into new namespaces; raises OSError where the kernel does not give them."""
    if not namespaces:
        return os.fork()
    arguments = (ctypes.c_uint64 * _CLONE_ARGS)(namespaces, 0, 0, 0, signal.SIGCHLD)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc.syscall(_SYS_CLONE3, arguments, ctypes.c_size_t(ctypes.sizeof(arguments)))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        kind = Refused if number in REFUSALS else OSError
        raise kind(
            number, os.strerror(number), "a user namespace" if namespaces & CLONE_NEWUSER else "namespaces"
        )
    return pid


def answer_of(namespaces: int, function: Callable[[], str]) -> str:
    """What a function says in a process of its own; nothing if it does not come to its end."""
    read, write = os.pipe()
    with os.fdopen(read, encoding="utf-8") as answer:
        try:
            pid = fork(namespaces)
            if pid == 0:
                try:
                    os.write(write, function().encode())
                finally:
                    os._exit(0)
        finally:
            os.close(write)
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def _become(what: Launch, parent: list[int]) -> NoReturn:
    """Whatever goes wrong, this process never goes on as the engine."""
    code = _CANNOT_EXECUTE
    try:
        os.setsid()
        end_with_parent(signal.SIGTERM)
        gone = select.poll()  # not `select`, which knows no descriptor above 1023
        for fd in parent:
            gone.register(fd, select.POLLIN)
        if not gone.poll(0):  # else it was gone before the kernel knew
            code = _execute(what)
    except BaseException as error:  # noqa: BLE001 - see above
        with contextlib.suppress(BaseException):
            sys.stderr.write(f"pai-runtime: a task cannot be started: {error!r}\n")
            sys.stderr.flush()
    finally:
        os._exit(code)


def _execute(what: Launch) -> int:
    """Does not return, unless with the exit code of a failure."""
    try:
        for path in Path("/proc/self/fd").iterdir():  # what our caller has left open is not the task's
            with contextlib.suppress(OSError):
                os.set_inheritable(int(path.name), int(path.name) in _STANDARD)
        pid = Path("/proc/self").readlink()  # as the engine's own namespace has it
        options = [f"{what.pid}{pid}", *(f"{name}{_handed_over(fd)}" for name, fd in what.fds.items())]
        null = os.open(os.devnull, os.O_RDWR)
        for fd in _STANDARD if what.silent else (0,):
            os.dup2(null, fd)
        what.prepare()
        os.execve(what.argv[0], [*what.argv, *options], what.environment)  # noqa: S606 - no shell, as it should
    except OSError as error:
        return what.fail(error)


def _handed_over(fd: int) -> int:
    """Another descriptor of the same file, that is not closed when the program begins."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD, _LOWEST_FD)
