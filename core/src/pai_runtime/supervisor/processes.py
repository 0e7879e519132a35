"""The foreground of a task: one process at a time, the steps and the user's command."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType

from pai_runtime.supervisor.logs import RuntimeLog, Sink
from pai_runtime.supervisor.loop import Child, ExitStatus, Loop
from pai_runtime.supervisor.mask_requests import MaskRequests
from pai_runtime.supervisor.stop import Stop
from pai_runtime.task.masking import Masks

_LAST_SECONDS = 10
"""How long is waited for processes that are killed to be gone, and for output that does not end."""

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
"""Signals that are for the command, as an init process passes them on; most would end us otherwise."""


class Processes:
    """Runs processes to their end, or until a time (monotonic clock) that `stop_at` gives.

    A process that has to stop gets SIGTERM, and SIGKILL when `grace` seconds have passed, each for its
    whole group, which is waited for: a shell is gone at once, and the program that it ran saves its work.
    Background processes that one leaves behind which has ended by itself live on, and their output with them.
    """

    def __init__(
        self, loop: Loop, grace: float, stop: Stop, steps_output: RuntimeLog, mask_pipe: int, masks: Masks
    ) -> None:
        self._loop = loop
        self._grace = grace
        self._stop = stop
        self._steps_output = steps_output
        self._steps_pipe = loop.pipe(steps_output)
        self._child: Child | None = None
        self._early: list[int] | None = None
        """Signals for a process that is just being started; None: there is none."""
        for number in _FORWARDED:
            signal.signal(number, self._forward)
        loop.listen(mask_pipe, MaskRequests(masks, steps_output.say).feed)

    def run_step(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        fds: tuple[int, ...],
        stop_at: Callable[[], float],
    ) -> ExitStatus:
        """Run a step; raises `CannotStart`. One whose time is over before it starts ends as by SIGTERM."""
        if time.monotonic() >= stop_at():
            return ExitStatus(128 + signal.SIGTERM, signal.SIGTERM)
        ended = self._run(argv, environment, script, fds, self._steps_pipe, self._steps_pipe, stop_at)
        self._steps_output.flush()
        return ended

    def run_command(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        stdout: Sink,
        stderr: Sink,
        stop_at: Callable[[], float],
    ) -> ExitStatus:
        """Run the user's command, its two streams apart; raises `CannotStart`."""
        out, err = self._loop.pipe(stdout), self._loop.pipe(stderr)
        try:
            ended = self._run(argv, environment, script, (), out, err, stop_at)
        finally:
            os.close(out)
            os.close(err)
        stdout.flush()
        stderr.flush()
        return ended

    def end(self) -> None:
        """Kill what is left of the task, and take its last output."""
        self._loop.kill_all(_LAST_SECONDS)
        self._loop.drain(_LAST_SECONDS)

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if self._child:
            self._child.signal_group(number)
        elif self._early is not None:
            self._early.append(number)

    def _run(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        fds: tuple[int, ...],
        stdout: int,
        stderr: int,
        stop_at: Callable[[], float],
    ) -> ExitStatus:
        spawn = partial(self._loop.spawn, argv, environment, script, stdout, stderr, fds)
        child = self._start(spawn)
        while child.ended is None and time.monotonic() < stop_at():
            self._loop.turn(stop_at())
        ended = child.ended or self._stop_group(child)
        self._child = None
        self._loop.drain(_LAST_SECONDS)
        self._loop.hear()
        return ended

    def _start(self, spawn: Callable[[], Child]) -> Child:
        # It may run, and be sent a signal, before we know of it.
        early: list[int] = []
        self._early = early
        try:
            self._child = child = spawn()
        finally:
            self._early = None
        for number in early:
            child.signal_group(number)
        return child

    def _stop_group(self, child: Child) -> ExitStatus:
        kill_at = time.monotonic() + self._grace
        if not self._stop.at_once:
            child.signal_group(signal.SIGTERM)
            child.signal_group(signal.SIGCONT)  # one that is stopped could not heed it
        while _is_left(child) and time.monotonic() < kill_at and not self._stop.at_once:
            self._loop.turn(kill_at)
        child.signal_group(signal.SIGKILL)
        while child.ended is None:
            self._loop.turn()
        return child.ended


def _is_left(group: Child) -> bool:
    try:
        os.killpg(group.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
