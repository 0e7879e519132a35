"""Following a run on a cluster until it is over, or until the user interrupts."""

import shlex
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from pai_kubernetes.run.logs import Logs
from pai_kubernetes.run.news import news
from pai_kubernetes.run.signals import stop_signals
from pai_kubernetes.run.watched import Watched
from pai_runtime.engines.cluster import ClusterError
from pai_runtime.engines.view import View
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.task.exit_codes import INTERRUPTED, MOST_CODE

_SHOW_EVERY: Final = 0.25
_REST: Final = 9
"""The pause as a multiple of an update's cost, so that a large run takes a tenth of a processor."""
_LONGEST_REST: Final = 1.0
"""Maximum pause in seconds, for which Ctrl-C has to wait."""
_AWAY: Final = 30.0
"""Seconds without an answer after which that is reported."""
_REST_OF_LOGS: Final = 15.0
"""Seconds to wait for the last output of the tasks once the run is over."""
_REST_OF_PODS: Final = 2.0
"""Further seconds to wait for the nodes to say how containers ended."""
"""The maximum exit status; a larger one would be cut to eight bits, and might be 0."""

Command = Callable[..., str]
"""A function that returns a command line about the run, from its first and last words."""


class Follower:
    """A follower of a run, which shows in `view` what `read` returns.

    `options` are the words of a command line that say where the run is.
    """

    def __init__(
        self,
        watched: Watched,
        read: Callable[[], Run | Unreadable],
        logs: Logs,
        view: View,
        name: str,
        options: tuple[str, ...],
    ) -> None:
        self._watched = watched
        self._read = read
        self._logs = logs
        self._view = view
        self._name = name
        self._options = options
        self._interrupted = False
        self._told: set[str] = set()
        self._answered_at = time.monotonic()
        self._told_of_silence = False
        self._spent = time.thread_time()

    def follow(self) -> tuple[Run, int]:
        """Follow the run; return its last state and the exit status. Raises `ClusterError`."""
        run = self._run()
        with stop_signals(self._interrupt):
            while not (self._interrupted or run.over):
                self._view.show(run)
                self._wait()
                before, run = run, self._run()
                self._tell(before, run)
            if run.over:
                run = self._show_rest(run)
        if self._interrupted:
            self._view.say(f"{self._name} keeps running; to follow it again: {self._command('logs', '-f')}")
            self._view.say(f"to stop it: {self._command('stop')}")
        self._view.show(run)
        self._view.end()
        return run, INTERRUPTED if self._interrupted else exit_status(run)

    def _wait(self) -> None:
        """Wait until there may be something new to see."""
        before, self._spent = self._spent, time.thread_time()
        time.sleep(min(_REST * (self._spent - before), _LONGEST_REST))
        self._watched.changed.wait(_SHOW_EVERY)
        self._watched.changed.clear()

    def _run(self) -> Run:
        run = self._read()
        if isinstance(run, Unreadable):
            raise ClusterError(run.reason)
        return run

    def _show_rest(self, run: Run) -> Run:
        """Continue, for a limited time, until the logs of all tasks have ended; return the run as it is then.

        By that time it is known how the stopped tasks ended.
        """
        end = time.monotonic() + _REST_OF_LOGS
        self._view.show(run)
        while self._logs.is_more_to_come() and time.monotonic() < end and not self._interrupted:
            run = self._show_next()
        end = time.monotonic() + _REST_OF_PODS
        while self._watched.is_ending() and time.monotonic() < end and not self._interrupted:
            run = self._show_next()
        return run

    def _show_next(self) -> Run:
        self._watched.changed.wait(_SHOW_EVERY)
        self._watched.changed.clear()
        run = self._run()
        self._view.show(run)
        return run

    def _tell(self, before: Run, run: Run) -> None:
        for text in news(before, run):
            self._view.say(text)
        for what, error in list(self._watched.missing.items()):
            self._say_once(f"cannot see the {what} of this run: {error}")
        if run.note and run.failed_task is None:
            self._say_once(run.note)
        if left_out := self._logs.left_out():
            logs = self._command("logs", "TASK", "-f")
            self._say_once(f"the output of {left_out} more tasks is not shown here; to follow one: {logs}")
        self._tell_of_silence()

    def _tell_of_silence(self) -> None:
        now = time.monotonic()
        if not self._watched.is_away():
            if self._told_of_silence:
                self._view.say("the cluster answers again")
            self._answered_at, self._told_of_silence = now, False
        elif not self._told_of_silence and now - self._answered_at > _AWAY:
            self._told_of_silence = True
            self._view.say("the cluster does not answer; the run may go on meanwhile")

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._view.say(text)

    def _command(self, word: str, *more: str) -> str:
        return shlex.join(["pai-runtime", word, self._name, *more, *self._options])

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._interrupted:
            raise SystemExit(INTERRUPTED)
        # No more than that: what was interrupted may hold the lock of an event, or of a stream.
        self._interrupted = True


def exit_status(run: Run) -> int:
    """Return the exit status for a finished job, as for a local run."""
    if run.outcome == "succeeded":
        return 0
    if run.outcome == "cancelled":
        return INTERRUPTED
    failed = next((task for task in run.tasks if task.name == run.failed_task), None)
    code = failed.exit_code if failed else None
    return code if code and code <= MOST_CODE else 1
