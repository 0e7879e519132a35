"""Printing the runtime's log of a task: what a sidecar does, so that a cluster's own tools show it.

It runs beside the task, as a user of its own, on the pod volume that it can only read. The task can write the
files there, so they are read as such. It goes on until a signal ends it, which the kubelet sends once the
task has ended, and then prints what is left.

A task of a gang that ends soon keeps its pod until all others have passed the barrier: those that look for it
by its name, since they started later or are in a pause, would never find it otherwise
(`pai_pod.peer_barrier`). Where that cannot be learned (`pai_pod.passed`), it keeps it for a while. One that
was cancelled does not, since its job is being stopped or restarted. One that has decided its job
(`DECIDING_VARIABLE`) keeps it only for as long as others may need to hear of it.

Between the lines of the log it tells the variables of the task (`pai_pod.told_variables`), whenever
they have changed and at the end; and that it is held for debugging, or lingers, when that begins and ends.

Where the cluster keeps the output of tasks, it copies that to a storage meanwhile (`pai_pod.output_copy`).
"""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

from pai_document.printable import printable
from pai_pod.directories import pod_directories
from pai_pod.output_copy import output_copy
from pai_pod.passed import STAYS, passed_barrier
from pai_pod.told_variables import state_line, told_line
from pai_runtime.runs.log_follower import LogFollower
from pai_task.exit_record import read_exit_record
from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder
from pai_task.layout import PLAN, RUNTIME_LOG, VARIABLES
from pai_task.signals import STOP_SIGNALS
from pai_task.state import read_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pai_pod.directories import Directories
    from pai_pod.passed import PassedBarrier

POLL = 0.5
"""Seconds between two checks of the log."""
MOST_TOLD = 50
"""Maximum number of times that the variables are printed while the task runs."""

KEPT = 40.0
"""Seconds for which the pod of a gang's task is there, unless all are known to have passed the barrier.

A name server may say for 30 that it does not know a name, and then a barrier may be in its longest pause.
"""
PORT_VARIABLE = "PAI_BARRIER_PORT"
"""The port (UDP) at which tasks tell each other so, where pods have networks of their own."""
DECIDING_VARIABLE = "PAI_DECIDING_ENDS"
SUCCESS, FAILURE = "success", "failure"
"""Words in that variable: the job has ended as soon as this task has ended so."""

MOST_LOOKS_AFTER_END = 10
"""Looks after which the end of the task is the end here too, without a signal.

One that comes before this process blocks it is lost, and the kubelet would wait for the whole grace period: a
task may end sooner than this has started.
"""

_TO_THE_END = 0.8
"""Timeout in seconds for printing the rest of the log after a signal; the task may still be writing."""

_CHUNK = 64 * 1024
_CUT = b"[pai-runtime: some of the log is left out here: the task wrote more than could be printed]\n"
_MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of ``variables.json`` and ``plan.json``; the kernel allows a smaller environment."""


def print_runtime_log(environment: Mapping[str, str]) -> int:
    """Print the runtime's log until a signal ends this; return the exit status. Raises `BadDirectory`."""
    # The first process of a container does not get those that it neither handles nor blocks.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    started = time.monotonic()
    directories = pod_directories(environment)
    printer = _Printer(directories)
    copy = output_copy(directories, environment)
    passed = passed_barrier(directories.runtime, environment.get(PORT_VARIABLE, ""), KEPT)
    deciding = environment.get(DECIDING_VARIABLE, "").split()
    is_told_to_stop, looks_after_end, stop_at = False, 0, math.inf
    while True:
        if passed:
            passed.look()
        has_printed = printer.pass_on()
        if is_told_to_stop and (not has_printed or time.monotonic() > stop_at):
            printer.end(is_all=not has_printed)
            if copy:
                copy.stop()
            seconds = printer.is_looked_for(deciding, STAYS if passed else 0)
            _keep_pod(passed, started + seconds)
            if copy:
                copy.wait()
            return 0
        pause = 0 if has_printed or is_told_to_stop else POLL
        looks_after_end += not has_printed and printer.task_has_ended()
        is_told_to_stop |= looks_after_end > MOST_LOOKS_AFTER_END
        is_told_to_stop |= signal.sigtimedwait(STOP_SIGNALS, pause) is not None
        if is_told_to_stop:
            stop_at = min(stop_at, time.monotonic() + _TO_THE_END)


def _keep_pod(passed: PassedBarrier | None, until: float) -> None:
    """Wait until all have passed the barrier, or a signal comes."""
    while not (passed and passed.may_leave) and (left := until - time.monotonic()) > 0:
        if signal.sigtimedwait(STOP_SIGNALS, min(left, POLL) if passed else left) is not None:
            return
        if passed:
            passed.look()


class _Printer:
    """A printer of the log and the variables, which remembers how far it has come."""

    def __init__(self, directories: Directories) -> None:
        self._runtime = directories.runtime
        volume, logs = directories.volume, directories.logs
        # From the volume on, where the task can have put a link in the place of each directory.
        root = volume if logs.is_relative_to(volume) else logs
        self._log = LogFollower(root, str(logs.relative_to(root) / Path(RUNTIME_LOG).name))
        self._is_line_begun = False
        self._is_troubled = False
        self._told = 0
        self._of_told: tuple[int, ...] = ()
        self._kept: object = None

    def pass_on(self) -> bool:
        """Print some of what is new; return whether there was anything."""
        try:
            data = self._log.read(_CHUNK)
        except OSError as error:
            data = b""
            self._say(f"{self._log.name} cannot be read: {error.strerror}")
        if data:
            _print(data)
            self._is_line_begun = not data.endswith(b"\n")
        elif not self._is_line_begun and self._told < MOST_TOLD:
            self._tell()
            self._tell_kept()
        return bool(data)

    def end(self, *, is_all: bool) -> None:
        """Print what belongs at the end, with the last of the log unless `is_all` of it has been printed."""
        if self._is_line_begun:
            _print(b"\n")
        if not is_all:
            _, _, last = self._log.tail(_CHUNK).partition(b"\n")
            _print(_CUT + last + b"\n")
        self._of_told = ()
        self._tell()

    def task_has_ended(self) -> bool:
        """Return whether the task says that it has ended.

        If it errs, this process is restarted and prints everything again.
        """
        try:
            with Folder.at(self._runtime, follow=False) as folder:
                return read_state(folder).get("phase") == "ended"
        except OSError:
            return False

    def is_looked_for(self, deciding: Collection[str], by_asking: float) -> float:
        """Return for how many seconds after its start others may look for this task.

        `by_asking` is for how long they do if it has decided the job, so that nobody looks for its name.
        """
        try:
            with Folder.at(self._runtime, follow=False) as folder:
                plan = loads_untrusted(folder.read(PLAN, _MOST_BYTES))
                outcome = read_exit_record(folder).get("outcome")
            if outcome == "cancelled" or plan["gang"] is not True or sum(plan["instances"].values()) == 1:
                return 0
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return 0  # it is none, or the task has made something else of it
        return by_asking if (SUCCESS if outcome == "ok" else FAILURE) in deciding else KEPT

    def _tell(self) -> None:
        """Print the variables if they have changed."""
        try:
            with Folder.at(self._runtime, follow=False) as folder:
                status = folder.stat(VARIABLES)
                found = (status.st_ino, status.st_mtime_ns, status.st_size)
                if found == self._of_told:
                    return
                self._of_told = found
                self._told += 1  # whatever it is: reading it is what costs
                line = told_line(loads_untrusted(folder.read(VARIABLES, _MOST_BYTES)))
        except (OSError, ValueError):
            return  # there are none yet, or the task has made something else of them
        _print(line)

    def _tell_kept(self) -> None:
        """Print that the task is held or lingers when that begins, and when it ends."""
        try:
            with Folder.at(self._runtime, follow=False) as folder:
                state = read_state(folder)
        except OSError:
            return
        kept = state.get("since") if state.get("phase") in ("held", "lingering") else None
        if kept != self._kept:
            self._kept = kept
            self._told += 1
            _print(state_line(state))

    def _say(self, text: str) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            os.write(2, f"pai-runtime: {printable(text)}\n".encode())


def _print(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
