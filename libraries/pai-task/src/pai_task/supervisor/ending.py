"""The processes of a step or command that has to end, and which of them are told so first.

Its process group is not enough: ``timeout``, ``setsid`` and some launchers put what they run into another
one, which would be killed without a word. And all at once is too much: ``tee`` would be gone before the
training whose last lines it reads.
"""

from __future__ import annotations

import os

from pai_task.record import record
from pai_task.signals import signal
from pai_task.supervisor.process_tree import descendants, read_proc, stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_GONE = (b"Z", b"X")


@record(frozen=True)
class _Process:
    started: bytes
    parent: int
    group: int
    caught: int
    reads_pipe: bool


class ProcessTree:
    """A process and all below it, as they were when this was made; ids that are used again are none of it."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._processes: dict[int, _Process] = {}
        for pid in (leader, *descendants(leader)):
            if found := _look(pid):
                self._processes[pid] = found

    def handling(self, number: int) -> list[int]:
        """Return those that handle a signal, but for those to which another one passes it on."""
        return [
            pid for pid in self._processes if self._handles(pid, number) and not self._is_passed(pid, number)
        ]

    def told_first(self) -> list[int]:
        """Return those that get SIGTERM at once; the others get it when these are gone.

        One in another process group is left to what handles SIGTERM above it, as a launcher does that ends
        its workers. The `readers` are spared.
        """
        spared = self.readers()
        return [
            pid for pid in self._processes if not self._is_passed(pid, signal.SIGTERM) and pid not in spared
        ]

    def readers(self) -> list[int]:
        """Return those that read a pipe and do not handle SIGTERM, if what may write into it saves its work.

        They end by themselves once they have read what that wrote last.
        """
        handling = {pid for pid in self._processes if self._handles(pid, signal.SIGTERM)}
        return [
            pid
            for pid, process in self._processes.items()
            if process.reads_pipe and pid not in handling and handling.difference(self._above(pid))
        ]

    def outside(self) -> list[int]:
        """Return those that are in other process groups than the first one's."""
        return [pid for pid, process in self._processes.items() if process.group != self._leader]

    def left(self, pids: Iterable[int] | None = None) -> list[int]:
        """Return those that still run, of some or of all."""
        return [
            pid
            for pid in (self._processes if pids is None else pids)
            if (now := stat_fields(pid)) and now[0] not in _GONE and now[19] == self._processes[pid].started
        ]

    def signal(self, number: int, pids: Iterable[int] | None = None) -> None:
        """Send a signal to those that still run, of some or of all; a process that is stopped goes on."""
        for pid in self.left(pids):
            for each in (number, signal.SIGCONT):
                try:
                    os.kill(pid, each)
                except (ProcessLookupError, PermissionError):
                    pass

    def _handles(self, pid: int, number: int) -> bool:
        return bool(self._processes[pid].caught >> (number - 1) & 1)

    def _is_passed(self, pid: int, number: int) -> bool:
        """Return whether a process is out of the group, and below one that handles the signal."""
        return self._processes[pid].group != self._leader and any(
            self._handles(above, number) for above in self._above(pid)
        )

    def _above(self, pid: int) -> Iterator[int]:
        """Yield what a process descends from, as far as it belongs to the tree."""
        while pid != self._leader and (pid := self._processes[pid].parent) in self._processes:
            yield pid


def _look(pid: int) -> _Process | None:
    stat, status = stat_fields(pid), read_proc(f"/proc/{pid}/status")
    if not stat:
        return None
    caught = status.partition(b"\nSigCgt:")[2].partition(b"\n")[0]
    try:
        reads_pipe = os.readlink(f"/proc/{pid}/fd/0").startswith("pipe:")
    except OSError:
        reads_pipe = False
    return _Process(stat[19], int(stat[1]), int(stat[2]), int(caught or b"0", 16), reads_pipe)
