"""What the kernel tells about the processes of a task, in ``/proc``; any of it may be missing."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import islice
from pathlib import Path

_MOST_BYTES = 1 << 16
_MOST_THREADS = 500
_MOST_SOCKETS = 100_000
_SLEEPS = ("nanosleep", "clock_nanosleep")
TIMED_WAIT = "futex with a time limit"
"""The name for a wait for another thread that ends by itself."""
RESTARTED = "restart_syscall"
"""The call in which a process goes on with a wait in which it was stopped, as by who reads its stack.

Of waits, those that may have a time limit go on so.
"""
_seen_waiting: dict[str, str] = {}
"""The calls in which processes and threads waited when they were seen before, by their place in ``/proc``."""
_MOST_SEEN = 100_000
_FUTEX_TIMEOUT = 4
"""The place of the time limit among the words about a system call."""
_ESTABLISHED, _LISTENS, _SENT_AGAIN = "01", "0A", 3
"""States of a TCP socket, and how often at least is sent again what a peer does not take."""

_NUMBERS = {
    "x86_64": {
        "read": 0, "poll": 7, "readv": 19, "pread64": 17, "select": 23, "nanosleep": 35, "connect": 42,
        "accept": 43, "recvfrom": 45, "recvmsg": 47, "wait4": 61, "flock": 73, "pause": 34, "futex": 202,
        "epoll_wait": 232, "clock_nanosleep": 230, "waitid": 247, "openat": 257, "pselect6": 270,
        "ppoll": 271, "epoll_pwait": 281, "accept4": 288, "write": 1, "fcntl": 72, "fsync": 74, "open": 2,
        "rt_sigsuspend": 130, "rt_sigtimedwait": 128, "restart_syscall": 219, "kill": 62,
    },
    "aarch64": {
        "read": 63, "readv": 65, "pread64": 67, "connect": 203, "accept": 202, "recvfrom": 207,
        "recvmsg": 212, "wait4": 260, "flock": 32, "futex": 98, "clock_nanosleep": 115, "nanosleep": 101,
        "waitid": 95, "openat": 56, "pselect6": 72, "ppoll": 73, "epoll_pwait": 22, "accept4": 242,
        "write": 64, "fcntl": 25, "fsync": 82, "rt_sigsuspend": 133, "rt_sigtimedwait": 137,
        "restart_syscall": 128, "kill": 129,
    },
}  # fmt: skip
_NAMES = {number: name for name, number in _NUMBERS.get(platform.machine(), {}).items()}

_BY_KERNEL_FUNCTION = {
    "futex": "futex", "do_wait": "wait4", "nanosleep": "nanosleep", "ep_poll": "epoll_wait",
    "do_poll": "poll", "poll_schedule": "poll", "do_select": "select", "pipe_read": "read",
    "wait_woken": "recvfrom", "stream_read": "recvfrom", "accept": "accept", "sigsuspend": "rt_sigsuspend",
}  # fmt: skip
"""System calls by part of the name of a function of the kernel (``wchan``), which Yama does not hide."""

OF_A_FILE = frozenset(("read", "readv", "pread64", "write", "fsync", "flock", "fcntl"))
"""System calls whose first argument is a descriptor, at which people look."""


@dataclass(frozen=True)
class Process:
    """One process at one moment.

    `state` is the kernel's letter, `cpu` the seconds of processors that it and the children that it has
    waited for have used, `io` the bytes that it has read and written by system calls, None if that is not
    ours to read. `call` is the system call in which its main thread waits, empty if it is in none or that
    cannot be read; `file` is what that reads or writes, and `wait` the kernel's own function (``wchan``).
    """

    pid: int
    parent: int
    name: str
    state: str
    cpu: float
    io: int | None
    call: str
    file: str
    wait: str

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in "Tt"


def tree(root: int) -> list[Process]:
    """Return the processes below one, parents before their children, without those that have ended."""
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for pid in _children(waiting.pop(0)):
            waiting.append(pid)
            if (stat := _stat(pid)) and stat[1][0] not in "ZX":
                found.append(_process(pid, *stat))
    return found


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    found: list[int] = []
    for thread in _threads(pid):
        with suppress(OSError), Path(f"/proc/{pid}/task/{thread}/children").open("rb") as file:
            found += map(int, file.read(_MOST_BYTES).split())
    return found


def may_wait(pid: int) -> bool:
    """Return whether a process may wait for as long as it likes: it listens, or a thread of it sleeps."""
    return has_listener(pid) or any(_call(f"{pid}/task/{thread}")[0] in _SLEEPS for thread in _threads(pid))


def has_listener(pid: int) -> bool:
    """Return whether a process has a TCP socket that listens."""
    return any(fields[3] == _LISTENS for fields in _tcp(pid))


def addresses(pid: int) -> frozenset[str]:
    """Return the ``host:port`` of the ends of the TCP connections of a process that are its own."""
    return frozenset(_address(fields[1]) for fields in _tcp(pid) if fields[3] == _ESTABLISHED)


def silent_peers(pid: int) -> tuple[str, ...]:
    """Return the ``host:port`` of those that do not answer what a process sends to them, again and again."""
    return tuple(
        _address(fields[2])
        for fields in _tcp(pid)
        if fields[3] == _ESTABLISHED and fields[5].startswith("01:") and int(fields[6], 16) >= _SENT_AGAIN
    )


def is_service(pid: int) -> bool:
    """Return whether a process is a service of the task, samples its GPUs, or is what `exec` runs there."""
    variables = _text(f"/proc/{pid}/environ").split("\0")
    names = {each.partition("=")[0] for each in variables}
    return "PAI_RUNTIME_PYTHON" in names and "PAI_TASK_PHASE" not in names


def status_field(pid: int, name: str) -> str:
    """Return a field of the ``status`` of a process; empty if it has gone."""
    lines = _text(f"/proc/{pid}/status").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")


def owner_of(pid: int) -> str:
    """Return whose the files about a process are: its user's, but root's if it is non-dumpable."""
    try:
        return str(Path(f"/proc/{pid}/status").stat().st_uid)
    except OSError:
        return ""


def kernel_setting(name: str) -> str:
    """Return a setting below ``kernel``; empty if the kernel has none of this name."""
    return _text(f"/proc/sys/kernel/{name}").strip()


def is_copy(pid: int, of: int) -> bool:
    """Return whether a process is one that another has forked, and nothing else yet."""
    return _text(f"/proc/{pid}/cmdline") == _text(f"/proc/{of}/cmdline")


def is_watch(pid: int) -> bool:
    """Return whether a process is the watch of a task."""
    return "pai_hang.watch" in _text(f"/proc/{pid}/cmdline").split("\0")


def uses_gpu(pid: int) -> bool:
    """Return whether a process has the device of a GPU open."""
    return any(link.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri/")) for link in _links(pid))


def is_named(path: str) -> bool:
    """Return whether what a descriptor is open on is a file with a name, and no terminal or ``/dev/null``."""
    if not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
        return False
    return not path.endswith(" (deleted)")


def _tcp(pid: int) -> Iterator[list[str]]:
    """Yield the words that the kernel has on each TCP socket of a process."""
    sockets = {link[8:-1] for link in _links(pid) if link.startswith("socket:[")}
    for table in ("tcp", "tcp6") if sockets else ():
        with suppress(OSError), Path(f"/proc/{pid}/net/{table}").open(encoding="ascii") as file:
            for line in islice(file, 1, _MOST_SOCKETS):
                fields = line.split()
                if len(fields) > 9 and fields[9] in sockets:  # noqa: PLR2004 - the inode
                    yield fields


def _address(text: str) -> str:
    """Return a ``host:port`` of what the kernel writes, words of four bytes in the order of the machine."""
    host, _, port = text.partition(":")
    words = [int(host[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(host), 8)]
    address = ip_address(b"".join(words))
    return f"{getattr(address, 'ipv4_mapped', None) or address}:{int(port, 16)}"


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """Return the name of a process, and what the kernel has on it after that."""
    text = _text(f"/proc/{pid}/stat")
    start, end = text.find("("), text.rfind(")")
    fields = text[end + 1 :].split()
    return (text[start + 1 : end], fields) if len(fields) > 14 else None  # noqa: PLR2004 - with the times


def _process(pid: int, name: str, fields: list[str]) -> Process:
    cpu = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    call, file = _call(str(pid))
    wait = _text(f"/proc/{pid}/wchan").removeprefix("0")
    call = call or next((name for part, name in _BY_KERNEL_FUNCTION.items() if part in wait), "")
    return Process(pid, int(fields[1]), name, fields[0], cpu, _io(pid), call, file, wait)


def _call(place: str) -> tuple[str, str]:
    words = _text(f"/proc/{place}/syscall").split()
    if len(words) < 2 or not words[0].isdecimal():  # noqa: PLR2004 - its number and an argument
        return "", ""
    name = _NAMES.get(int(words[0]), f"system call {words[0]}")
    if name == RESTARTED:
        return _seen_waiting.get(place, name), ""
    if name == "futex" and len(words) > _FUTEX_TIMEOUT and int(words[_FUTEX_TIMEOUT], 16):
        name = TIMED_WAIT
    if len(_seen_waiting) < _MOST_SEEN or place in _seen_waiting:
        _seen_waiting[place] = name
    if name not in OF_A_FILE:
        return name, ""
    try:
        return name, os.readlink(f"/proc/{place}/fd/{int(words[1], 16)}")  # noqa: PTH115 - may be no path
    except OSError:
        return name, ""


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]  # noqa: PTH208 - paths cost more
    except OSError:
        return []


def _io(pid: int) -> int | None:
    lines = _text(f"/proc/{pid}/io").splitlines()
    return sum(int(line.split()[1]) for line in lines[:2]) if len(lines) > 1 else None


def _links(pid: int) -> Iterator[str]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - as above
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115 - as above
        except OSError:
            continue


def _text(path: str) -> str:
    try:
        with Path(path).open("rb", buffering=0) as file:
            return file.read(_MOST_BYTES).decode("utf-8", "backslashreplace")
    except OSError:
        return ""
