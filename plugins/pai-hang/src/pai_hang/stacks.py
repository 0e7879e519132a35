"""The Python stacks of processes, read by pystack in processes of their own, which may crash or never end."""

import json
import os
import select
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NoReturn

from pai_hang.processes import Process, kernel_setting, owner_of, status_field

TIMEOUT = 10.0
"""Seconds that the stacks of one process may take."""

_MOST_BYTES = 1 << 20
_MOST_FRAMES = 200
_MOST_THREADS = 500
_MOST_NATIVE = 60
_MOST_TEXT = 300
_STARTS_OF_THREADS = ("_bootstrap", "__bootstrap")
_STANDS_STILL = "TtD"
"""States of processes that need no stop to be read; to wait for that of one in ``D`` may take for ever."""
_reading = threading.Lock()
NOT_PERMITTED = "not permitted to read its stacks"
_YAMA = {
    "1": "and this process is not an ancestor of it",
    "2": "which requires CAP_SYS_PTRACE",
    "3": "which forbids it to everybody",
}


@dataclass(frozen=True)
class Frame:
    """A call of a Python function: its name, and the file and line where it is."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Thread:
    """A thread with its frames, the outermost first; `has_gil` is whether it holds the interpreter's lock.

    `native` has the names of the functions of C that it is in, as far as they are known, the outermost first,
    and `values` is a digest of its variables.
    """

    tid: int
    frames: tuple[Frame, ...]
    has_gil: bool = False
    native: tuple[str, ...] = ()
    values: str = ""


@dataclass(frozen=True)
class Stacks:
    """The stacks of a process: its threads, or why there are none."""

    threads: tuple[Thread, ...] = field(default_factory=tuple)
    why_not: str = ""


def take(
    processes: Sequence[Process], timeout: float = TIMEOUT, *, closely: bool = False
) -> dict[int, Stacks]:
    """Return the stacks of processes by their ids, several at once; each stands still while it is read.

    That takes some hundredths of a second; `closely`, with functions of C and variables, some tenths.
    """
    import pystack.engine  # noqa: F401, PLC0415 - once, before the forks

    waiting, found = list(processes), {}
    running: dict[int, tuple[int, int, float, bytes]] = {}
    poll = select.poll()
    most = max(2, os.cpu_count() or 1)
    while waiting or running:
        while waiting and len(running) < most:
            process = waiting.pop(0)
            pipe, reader = _start(process, closely=closely)
            running[pipe] = process.pid, reader, time.monotonic() + timeout, b""
            poll.register(pipe, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(100)}
        for pipe, (pid, reader, until, data) in list(running.items()):
            piece = os.read(pipe, _MOST_BYTES) if pipe in ready else None
            if piece:
                running[pipe] = pid, reader, until, data + piece
            if piece == b"" or time.monotonic() > until or len(data) > _MOST_BYTES:
                poll.unregister(pipe)
                os.close(pipe)
                del running[pipe]
                os.kill(reader, signal.SIGKILL)  # not reaped yet, so it is ours
                _, status = os.waitpid(reader, 0)
                found[pid] = _parsed(pid, data, status, is_late=piece != b"")
    return found


def take_here(processes: Sequence[Process], *, closely: bool = False) -> dict[int, Stacks]:
    """Return the stacks of processes as `take` does, but in this process, which is an ancestor of them.

    It ends if that takes too long, or crashes the library: who was stopped to be read goes on then.
    """
    found = {}
    for process in processes:
        with _reading:
            signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
            try:
                answer = _stacks(process, closely=closely)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        found[process.pid] = _parsed(process.pid, json.dumps(answer).encode(), 0, is_late=False)
    return found


def _start(process: Process, *, closely: bool) -> tuple[int, int]:
    """Start the reader of a process, and return the pipe from it and its process id."""
    read, write = os.pipe()
    reader = os.fork()
    if reader == 0:
        os.close(read)
        _read_and_exit(process, write, closely=closely)
    os.close(write)
    return read, reader


def _read_and_exit(process: Process, pipe: int, *, closely: bool) -> NoReturn:
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # pystack's own messages
            os.dup2(nothing, standard)
        answer = json.dumps(_stacks(process, closely=closely)).encode()
        while answer:
            answer = answer[os.write(pipe, answer) :]
    finally:
        os._exit(0)


def _stacks(process: Process, *, closely: bool) -> dict[str, Any]:
    from pystack.engine import NativeReportingMode, get_process_threads  # noqa: PLC0415 - loaded before the fork

    mode = NativeReportingMode.PYTHON if closely else NativeReportingMode.OFF
    try:
        threads = get_process_threads(process.pid, process.state not in _STANDS_STILL, mode, closely)
    except Exception as error:  # noqa: BLE001 - whatever a library finds in foreign memory
        return {"error": str(error)}
    return {
        "threads": [
            [
                thread.tid,
                [
                    [frame.code.scope, frame.code.filename, frame.code.location.lineno]
                    for _, frame in zip(range(_MOST_FRAMES), thread.frames, strict=False)
                ],
                thread.holds_the_gil > 0,
                [frame.symbol for frame in thread.native_frames[-_MOST_NATIVE:]],
                sha256(repr([(each.arguments, each.locals) for each in thread.frames]).encode()).hexdigest(),
            ]
            for thread in threads[:_MOST_THREADS]
        ]
    }


def _parsed(pid: int, data: bytes, status: int, *, is_late: bool) -> Stacks:
    if is_late:
        return Stacks(why_not="its stacks took too long to read")
    try:
        document = json.loads(data)
        if "error" in document:
            return Stacks(why_not=_reason(pid, document["error"]))
        return Stacks(tuple(map(parsed_thread, document["threads"])))
    except (ValueError, LookupError, TypeError):
        return Stacks(why_not=f"its stacks could not be read (wait status {status})")


def parsed_thread(document: Any) -> Thread:
    """Return the thread of a list of its fields. Raises `TypeError` or `ValueError` for anything else."""
    tid, frames, has_gil, native, values = document
    return Thread(
        int(tid),
        tuple(Frame(cut(name), cut(file), int(line)) for name, file, line in frames),
        has_gil is True,
        tuple(map(cut, native)),
        cut(values),
    )


def cut(text: object) -> str:
    """Return a text, which should be one, in bounds."""
    return str(text)[:_MOST_TEXT]


def _reason(pid: int, error: str) -> str:
    """Return why there are no stacks, in our words where that is for people to mend."""
    if "Could not determine python version" in error:
        return "no Python"
    if "Operation not permitted" in error or "ermission denied" in error:
        return f"{NOT_PERMITTED}{refusal(pid)}"
    return cut(error)


def refusal(pid: int) -> str:
    """Return what forbids to read a process, for the end of a sentence; empty if that is not known."""
    user = status_field(pid, "Uid").partition("\t")[0]
    owner = owner_of(pid)
    if user and owner not in ("", user):
        return ": it is non-dumpable, so only root may"
    if user not in ("", str(os.geteuid())):
        return f": it belongs to user {user}"
    scope = kernel_setting("yama/ptrace_scope")
    if scope in _YAMA:
        return f": kernel.yama.ptrace_scope is {scope}, {_YAMA[scope]}"
    return ": seccomp may forbid it" if status_field(os.getpid(), "Seccomp") == "2" else ""


def main_thread(process: Process, stacks: Iterable[Thread]) -> Thread | None:
    """Return the main thread of a process, or None if it has no frames.

    In a PID namespace its number is another; then it is the one that the module `threading` has not started.
    """
    threads = [thread for thread in stacks if thread.frames]
    for thread in threads:
        if thread.tid == process.pid:
            return thread
    others = [thread for thread in threads if thread.frames[0].function not in _STARTS_OF_THREADS] or threads
    return others[-1] if others else None
