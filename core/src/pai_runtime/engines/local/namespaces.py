"""Processes in namespaces of their own, with their user and without unneeded privileges."""

import ctypes
import errno
import os
import signal
from pathlib import Path

from pai_task.own_process import PR_SET_DUMPABLE, prctl
from pai_task.supervisor.process_tree import PR_CAPBSET_DROP

CLONE_PARENT = 0x00008000
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

REFUSALS = (
    errno.EPERM,
    errno.EACCES,
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENODEV,
    errno.ENOSPC,  # no more namespaces
    errno.EOPNOTSUPP,
    errno.EUSERS,
)

_SYS_CLONE3 = 435
_CLONE_ARGS = 8
_CAP_SYS_PTRACE = 19

# Not ctypes.CDLL, which lets go of the interpreter's lock: there must be no doubt who holds it in the child.
_libc = ctypes.PyDLL(None, use_errno=True)


class Refused(OSError):
    """The exception for a kernel, or a container around us, that does not allow isolation."""


def clone(flags: int) -> int:
    """Fork as `os.fork` does, with Linux's ``CLONE_…`` flags. Raises `Refused` or OSError.

    With `CLONE_PARENT`, the new process is a child of our parent.
    """
    exit_signal = 0 if flags & CLONE_PARENT else signal.SIGCHLD  # that one is as ours
    arguments = (ctypes.c_uint64 * _CLONE_ARGS)(flags, 0, 0, 0, exit_signal)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc.syscall(_SYS_CLONE3, arguments, ctypes.c_size_t(ctypes.sizeof(arguments)))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        kind = Refused if number in REFUSALS else OSError
        raise kind(number, os.strerror(number), "a user namespace" if flags & CLONE_NEWUSER else "namespaces")
    return pid


def keep_user(user: int, group: int) -> None:
    """Map the user and the group from outside into this new user namespace. Raises `Refused`."""
    prctl(PR_SET_DUMPABLE, 1)  # else these files are root's
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        path = f"/proc/self/{name}"
        try:
            Path(path).write_text(text)
        except OSError as error:  # there are systems that give a user namespace, and no rights in it
            raise Refused(error.errno, error.strerror, path) from None


def give_up_tracing() -> None:
    """Drop the capability by which programs executed from here on could trace other users' processes."""
    prctl(PR_CAPBSET_DROP, _CAP_SYS_PTRACE)
