"""``python -m pai_hang.watch SECONDS SILENT THEN``: watch the command of the task that has this service.

The task's supervisor starts it once the command has been `SILENT` seconds without output, or a program is run
in the task; if possible as the parent of the command: then it reads the stacks itself, as only an ancestor
may everywhere. Else it is a sibling of the command, and of other services. What it finds it prints, and so it
is in ``runtime.log``.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from pai_hang import HANGS, stacks
from pai_hang.asking import answer_each
from pai_hang.examining import RAREST, Examiner, Pace
from pai_hang.judging import Sample, Silence, below, waits_for_others
from pai_hang.places import Look, at, odd_process, where
from pai_hang.processes import silent_peers, tree
from pai_hang.within import told

FOREVER = float("inf")

_FOR_OTHERS = 0.25
"""How much longer than others, as a share of `after`, a task is left that waits for other tasks.

So the one that they wait for is the first to fail.
"""
_GRACE = 10.0
"""Seconds between the signals that end a command."""
_MOST_LINES, _MOST_PEERS = 400, 3
_NOTE, _AT = "[NOTE] ", "[AT] "
"""What makes a line one that people see at once, or one that says where the command is."""
_NOT_OF_COMMANDS = (b"PAI_RUNTIME_PYTHON=", b"PAI_TASK_PHASE=")
"""Variables of services and steps."""


def main() -> None:
    """Watch until this process is ended."""
    after, silent, then, log = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], os.environ["PAI_USER_LOG"]
    supervisor, interval = os.getppid(), min(max(after / 40, 0.25), RAREST)
    own = _own_command()
    command = own
    silence, place = Silence(after), _Place(after + 2 * interval, silent)
    found: list[Look] = []
    end_at = FOREVER
    while os.getppid() == supervisor:
        time.sleep(interval)
        command = command or _command(supervisor)
        processes = below(tree(supervisor), command) if command else []
        if command is None or not processes:
            continue
        is_first = silence.since is None
        if silence.feed(Sample(time.monotonic(), processes, _written(log))) and found:
            say([f"[INFO] the task moves again, after {silence.longest:.0f} s"])
            found, end_at = [], FOREVER
        if is_first:
            silence.before = min(silent, silent_for(log))
        if silence.is_long and not found:
            examiner = Examiner(partial(_look, command), Pace(interval), after, interval)
            found, looks = examiner.found(is_idle=silence.is_idle)
            if found:
                say(report(found, looks, silence.before + silence.seconds))
                end_at = time.monotonic() + (after * _FOR_OTHERS if waits_for_others(found[0]) else 0)
            else:
                silence.since, silence.before = silence.last, 0  # it only waits, or computes: look again
        if not found:
            place.tell_if_due(command, silent_for(log))
        if then == "fail" and time.monotonic() >= end_at:
            say([f"{HANGS}{where(found[0])}"])
            _end(supervisor, command)
    if own:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(own, signal.SIGKILL)  # as it would be if the supervisor, which is gone, were its parent


class _Place:
    """Tells where a command is that writes nothing for as long as one that hangs, although it does not hang.

    Others may wait for it, who are told of; it may compute for ever, or read a slow disk.
    """

    def __init__(self, after: float, silent: float) -> None:
        self._after = after
        self._since = time.monotonic() - silent
        self._told, self._told_at = "", 0.0

    def tell_if_due(self, command: int, silent: float) -> None:
        """Take the command's process, and for how many seconds its log has not been written to."""
        now = time.monotonic()
        if self._told and now - silent > self._told_at:
            self._told = ""
            say([_AT])
        self._since = max(self._since, now - silent)
        if now - max(self._since, self._told_at) >= self._after and (looks := _look(command)):
            if at(looks) != self._told:
                say([f"{_AT}{at(looks)}", *_stacks_of(looks)])
            self._told, self._told_at = at(looks), now


def report(found: Sequence[Look], looks: Sequence[Look], seconds: float) -> list[str]:
    """Return what people are told about a task in which processes are stuck, of all its processes."""
    odd = odd_process(found[0], looks)
    but = f", but process {odd.process.pid} is {where(odd)}" if odd else ""
    # The same text in each task that is there, by which whoever reads the run groups them.
    first = f"{_NOTE}seems to hang: it is {where(found[0])}{but}"
    stuck_ones = {look.process.pid for look in found}
    others = [look for look in looks if look.process.pid not in stuck_ones]
    peers = dict.fromkeys(peer for look in found for peer in silent_peers(look.process.pid))
    silent = [f"{_NOTE}{peer} does not answer" for peer in list(peers)[:_MOST_PEERS]]
    return [first, *silent, f"[INFO] nothing has moved for {seconds:.0f} s", *_stacks_of([*found, *others])]


def _stacks_of(looks: Sequence[Look]) -> list[str]:
    lines = []
    for look in looks:
        lines.append(f"process {look.process.pid} ({look.process.name}) is {where(look)}")
        if look.main:
            lines += (f"  {frame.function} ({frame.file}:{frame.line})" for frame in look.main.frames)
        elif look.stacks.why_not != "no Python":
            lines.append(f"  no stack: {look.stacks.why_not}")
    return lines[:_MOST_LINES]


def say(lines: Iterable[str]) -> None:
    """Print lines in which a task may have put anything, without its control characters."""
    for line in lines:
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def _look(root: int, at_those: Iterable[Look] | None = None, *, closely: bool = False) -> list[Look]:
    """Return all processes from `root` on, or those among them at which was looked before."""
    processes = below(tree(os.getppid()), root)
    is_parent = any(process.parent == os.getpid() for process in processes)
    if at_those is not None:
        pids = {look.process.pid for look in at_those}
        processes = [process for process in processes if process.pid in pids]
    read = (stacks.take_here if is_parent else stacks.take)(processes, closely=closely)
    return [Look("", process, read[process.pid]) for process in processes]


def _own_command() -> int | None:
    """Return the command if it is below this process, which then tells who asks where it is."""
    own = next(iter(tree(os.getpid())), None)
    if own is None:
        return None
    answer_each(partial(told, os.getppid(), stacks.take_here))
    return own.pid


def _command(supervisor: int) -> int | None:
    """Return the process of the user's command, the first without what services and steps are told.

    It may have become any program by ``exec``. One that is still the supervisor's copy is none yet.
    """
    own = _bytes(supervisor, "cmdline")
    for process in sorted(tree(supervisor), key=lambda process: process.pid):
        if process.parent == supervisor and _bytes(process.pid, "cmdline") not in (own, b""):
            variables = _bytes(process.pid, "environ").split(b"\0")
            if not any(each.startswith(_NOT_OF_COMMANDS) for each in variables):
                return process.pid
    return None


def _bytes(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def silent_for(log: str) -> float:
    """Return the seconds since a log was written to; infinity if there is none."""
    try:
        return max(time.time() - os.stat(log).st_mtime, 0)  # noqa: PTH116 - as below
    except OSError:
        return FOREVER


def _written(log: str) -> object:
    try:
        found = os.stat(log)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _end(supervisor: int, command: int) -> None:
    """End a command with all its processes, those that are stopped too."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in below(tree(supervisor), command):
            for each in (number, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, each)
        until = time.monotonic() + _GRACE
        while below(tree(supervisor), command) and time.monotonic() < until:
            time.sleep(0.1)


if __name__ == "__main__":
    main()
