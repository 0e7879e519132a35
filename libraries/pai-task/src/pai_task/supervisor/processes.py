"""The foreground processes of a task, one at a time: its steps and the user's command."""

from __future__ import annotations

import os
import time

from pai_task.exit_codes import killed_by
from pai_task.signals import signal
from pai_task.supervisor.ending import ProcessTree
from pai_task.supervisor.loop import ExitStatus
from pai_task.supervisor.mask_requests import MaskRequests
from pai_task.supervisor.noted import Noted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from pai_task.supervisor.keeper import Keeper
    from pai_task.supervisor.logs import Logs, Sink
    from pai_task.supervisor.loop import Child, Loop
    from pai_task.supervisor.spawning import Program
    from pai_task.supervisor.stop import Stop

_LAST_SECONDS = 10
"""Seconds to wait for killed processes to be gone, and for output that does not end."""

_LOOK_EVERY = 0.1
"""Seconds between two looks at processes that have been told to end."""

_READS_ON = 1.0
"""Seconds that the reader of a pipe has for the last of it, once what writes into it is gone."""

_FORWARDED = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGPWR,
    signal.SIGWINCH,
    signal.SIGCONT,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)
"""Signals that are forwarded to the command, as by an init process; most would kill us otherwise."""


class Processes:
    """A runner of processes, to their end or to the time (monotonic clock) that `stop_at` returns.

    A process that has to stop gets SIGTERM, and SIGKILL after `grace` seconds, and so does all below it, in
    the order of `ProcessTree`. All of it is waited for: a shell ends at once while the program that it ran
    saves its work. Background processes of one that ended by itself keep running, and so does their output.
    `on_stop` is called with either signal, `on_note` with each note that a step prints.
    """

    def __init__(
        self,
        loop: Loop,
        stop: Stop,
        logs: Logs,
        grace: float,
        *,
        on_stop: Callable[[int], None],
        on_note: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._grace = grace
        self._stop = stop
        self._on_stop = on_stop
        self._steps_output = logs.runtime
        self._steps_pipe = loop.pipe(Noted(logs.runtime, on_note))
        self._child: Child | None = None
        self._early: list[int] | None = None
        """Signals for a process that is just being started; None: there is none."""
        for number in _FORWARDED:
            signal.signal(number, self._forward)

    def listen(self, mask_pipe: int, logs: Logs) -> None:
        """Mask the values that processes of the task write to a pipe."""
        self._loop.listen(mask_pipe, MaskRequests(logs.masks, logs.runtime.say).feed)

    def run_step(
        self, program: Program, stop_at: Callable[[], float], on_start: Callable[[], None] = lambda: None
    ) -> ExitStatus:
        """Run a step. Raises `CannotStart`. If its time is over before it starts, it ends as by SIGTERM."""
        if time.monotonic() >= stop_at():
            return ExitStatus(killed_by(signal.SIGTERM), signal.SIGTERM, "skipped")
        child = self._start(program, self._steps_pipe, self._steps_pipe)
        on_start()
        ended = self._wait(child, stop_at)
        self._steps_output.flush()
        return ended

    def run_command(
        self,
        program: Program,
        streams: tuple[Sink, Sink],
        on_start: Callable[[], None],
        save: Callable[[Child], bool] | None = None,
        keeper: Keeper | None = None,
    ) -> ExitStatus:
        """Run the user's command with separate output streams, below a `keeper` if given.

        Raises `CannotStart`. `save` is called before the command is told to end; it returns whether nothing
        is left to tell.
        """
        out, err = pipes = tuple(map(self._loop.pipe, streams))
        try:
            child = self._start(program, out, err, keeper)
            on_start()
            ended = self._wait(child, self._stop.work_until, save)
        finally:
            for pipe in pipes:
                os.close(pipe)
        for stream in streams:
            stream.flush()
        return ended

    def end(self) -> None:
        """Kill what is left of the task, and read its last output."""
        self._loop.kill_all(_LAST_SECONDS)
        self._loop.drain(_LAST_SECONDS)

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if self._child:
            self._child.signal_group(number)
        elif self._early is not None:
            self._early.append(number)

    def _start(self, program: Program, stdout: int, stderr: int, keeper: Keeper | None = None) -> Child:
        # It may run, and be sent a signal, before we know of it.
        early: list[int] = []
        self._early = early
        try:
            self._child = child = self._loop.spawn(program, stdout, stderr, keeper=keeper)
        finally:
            self._early = None
        for number in early:
            child.signal_group(number)
        return child

    def _wait(
        self, child: Child, stop_at: Callable[[], float], save: Callable[[Child], bool] | None = None
    ) -> ExitStatus:
        while child.ended is None and time.monotonic() < stop_at():
            self._loop.turn(stop_at())
        has_ended = child.ended is not None or (save is not None and not self._stop.at_once and save(child))
        ended = (has_ended and child.ended) or self._stop_tree(child)
        self._child = None
        self._loop.drain(_LAST_SECONDS)
        self._loop.hear()
        return ended

    def _stop_tree(self, child: Child) -> ExitStatus:
        kill_at = time.monotonic() + self._grace
        tree = ProcessTree(child.pid)
        if not self._stop.at_once:
            first, readers = tree.told_first(), tree.readers()
            tree.signal(signal.SIGTERM, first)
            self._on_stop(signal.SIGTERM)
            self._wait_while(lambda: bool(tree.left(first)), kill_at)
            reads_until = min(time.monotonic() + _READS_ON, kill_at)
            self._wait_while(lambda: bool(tree.left(readers)), reads_until)
            if time.monotonic() < kill_at:
                tree.signal(signal.SIGTERM, tree.outside())
                child.signal_group(signal.SIGTERM)  # also what has been started since then
                child.signal_group(signal.SIGCONT)
            self._wait_while(lambda: bool(tree.left()) or _is_left(child), kill_at)
        child.signal_group(signal.SIGKILL)
        tree.signal(signal.SIGKILL)
        if child.ended is None:
            self._on_stop(signal.SIGKILL)
        while child.ended is None:
            self._loop.turn()
        return ExitStatus(child.ended.code, child.ended.signal, "stopped")

    def _wait_while(self, is_going_on: Callable[[], bool], until: float) -> None:
        """Wait for processes that need not be our children, so that no signal tells of their ends."""
        while is_going_on() and time.monotonic() < until and not self._stop.at_once:
            self._loop.turn(min(until, time.monotonic() + _LOOK_EVERY))


def _is_left(group: Child) -> bool:
    try:
        os.killpg(group.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
