"""What a plugin must not do while plans are made, noticed and prevented in the process that makes them.

It notices what Python itself does, by its audit events. An extension module that calls the system on its own
is not noticed: this is for authors who want to know, and holds up nobody who means harm.
"""

import os
import sys
from typing import Any, Final

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGED = "chmod chown link mkdir remove rename rmdir symlink truncate utime"
_CHANGES: Final = frozenset(f"os.{name}" for name in _CHANGED.split())
_NETWORK: Final = frozenset(
    f"socket.{name}" for name in ("bind", "connect", "getaddrinfo", "gethostbyname", "sendmsg", "sendto")
)
_PROCESSES: Final = frozenset(
    ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn", "subprocess.Popen")
)


class SideEffect(BaseException):
    """The exception that prevents a side effect; of no class that a plugin catches by mistake."""


def prevent_side_effects() -> None:
    """From now on, raise `SideEffect` where Python code here writes, connects or starts a process."""
    sys.dont_write_bytecode = True  # of the libraries of a plugin, which is none of its doing

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if what := _side_effect(event, arguments):
            raise SideEffect(f"{what}, but the making of a plan must have no side effects")

    sys.addaudithook(look)


def _side_effect(event: str, arguments: tuple[Any, ...]) -> str | None:
    if event == "open":
        path, _, flags = arguments
        writes = not isinstance(path, int) and path != os.devnull and flags & _WRITES
        return f"opens {path} to write to it" if writes else None
    if event in _CHANGES:
        return f"changes {arguments[0]} ({event})"
    if event in _NETWORK:
        return f"uses the network ({event})"
    return f"starts a process ({event})" if event in _PROCESSES else None
