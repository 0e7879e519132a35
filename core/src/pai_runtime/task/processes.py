"""The foreground of a task: one process at a time, the steps and the user's command."""

import os
import signal
import time
from collections.abc import Callable, Mapping

from pai_runtime.task.logs import Sink
from pai_runtime.task.loop import Child, Ended, Loop
from pai_runtime.task.masking import Masks
from pai_runtime.task.shell import SCRIPT_FD, hand_over_script
from pai_runtime.task.stop import Stop


class Processes:
    """Runs processes to their end, or until a time (monotonic clock) that `stop_at` gives.

    A process that has to stop gets SIGTERM, and SIGKILL when `grace` seconds have passed, each for its
    whole group, which is waited for: a shell is gone at once, and the program that it ran saves its work.
    Background processes that one leaves behind which has ended by itself live on, and their output with them.
    """

    def __init__(self, loop: Loop, grace: float, stop: Stop, steps_output: Sink, masks: Masks) -> None:
        self._loop = loop
        self._grace = grace
        self._stop = stop
        self._steps_output = steps_output
        self._steps_pipe = loop.pipe(steps_output)
        self.mask_path = loop.listen(lambda lines: masks.add(os.fsdecode(lines).splitlines()))

    def run_step(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        fds: tuple[int, ...],
        stop_at: Callable[[], float],
    ) -> Ended:
        """Run a step; one whose time is over before it starts is not started, and ends as by SIGTERM."""
        if time.monotonic() >= stop_at():
            return Ended(128 + signal.SIGTERM, signal.SIGTERM)
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
    ) -> Ended:
        """Run the user's command, its two streams apart."""
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
        self._loop.kill_all(self._grace)
        self._loop.drain(self._grace)

    def _run(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        script: bytes,
        fds: tuple[int, ...],
        stdout: int,
        stderr: int,
        stop_at: Callable[[], float],
    ) -> Ended:
        hand_over_script(script)
        child = self._loop.spawn(argv, environment, stdout, stderr, (SCRIPT_FD, *fds))
        while child.ended is None and time.monotonic() < stop_at():
            self._loop.turn(stop_at())
        ended = child.ended or self._stop_group(child)
        self._loop.drain(self._grace)
        self._loop.hear()
        return ended

    def _stop_group(self, child: Child) -> Ended:
        kill_at = time.monotonic() + self._grace
        if not self._stop.at_once:
            child.signal_group(signal.SIGTERM)
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
