"""Following a run until it is over, or until the user interrupts: the same for every engine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

from pai_runtime.runs.errors import ClusterError
from pai_runtime.runs.interrupts import stop_signals
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.terminal.words import command_for
from pai_task.exit_codes import INTERRUPTED, MOST_CODE, killed_by
from pai_task.signals import ignore_stop_signals, on_stop_signals

_SHOW_EVERY: Final = 0.25
_REST: Final = 9
"""The pause as a multiple of an update's cost, so that a large run takes a tenth of a processor."""
_LONGEST_REST: Final = 1.0
"""Maximum pause in seconds, for which Ctrl-C has to wait."""
_AWAY: Final = 30.0
"""Seconds without an answer after which that is reported."""
_REST_OF_RUN: Final = 15.0
"""Seconds to wait for the last of a run that is over: output, and how its tasks ended."""


class View(Protocol):
    """What shows a run while it lasts; signal handlers may call `say`."""

    def say(self, text: str) -> None:
        """Show a message of the runtime."""

    def show(self, run: Run) -> None:
        """Show the current state of the run; to be called at each change, and four times a second."""

    def end(self) -> None:
        """Show the final state of the run."""


def follow(reader: RunReader, view: View) -> tuple[Run, int]:
    """Show a run until it is over; return its last state, and the exit status of its job.

    A stop signal ends the following of a run that goes on without it, with status 130. Any other run it
    cancels, a second one at once. Raises `ClusterError`.
    """
    following = _Following(reader, view)
    try:
        with following.signals():
            reader.follow(view.say)
            return following.to_the_end()
    finally:
        reader.close()


class _Following:
    def __init__(self, reader: RunReader, view: View) -> None:
        self._reader = reader
        self._view = view
        self._stopped_by: int | None = None
        self._told: set[str] = set()
        self._answered_at = time.monotonic()
        self._told_of_silence = False
        self._spent = time.thread_time()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Handle stop signals; where the run needs this process, they are ignored once it is over."""
        if self._reader.goes_on:
            with stop_signals(self._leave):
                yield
            return
        on_stop_signals(self._cancel)
        yield
        ignore_stop_signals()  # Python itself would end by one that comes while it ends

    def to_the_end(self) -> tuple[Run, int]:
        run = self._run()
        while not (run.over or self._is_left):
            self._view.show(run)
            self._wait()
            before, run = run, self._run()
            self._tell(before, run)
        self._view.show(run)
        until = time.monotonic() + _REST_OF_RUN
        while run.over and not (self._reader.is_settled() or self._is_left) and time.monotonic() < until:
            self._reader.wait(_SHOW_EVERY)
            run = self._run()
            self._view.show(run)
        if self._is_left:
            name, logs = self._reader.named, command_for(self._reader, "logs", "-f")
            self._view.say(f"{name} keeps running; to follow it again: {logs}")
            self._view.say(f"to stop it: {command_for(self._reader, 'stop')}")
            self._view.show(run)
        self._view.end()
        return run, self._status(run)

    def _status(self, run: Run) -> int:
        if self._is_left:
            return INTERRUPTED
        if run.outcome == "cancelled" and self._stopped_by is not None:
            return killed_by(self._stopped_by)
        return exit_status(run)

    @property
    def _is_left(self) -> bool:
        return self._stopped_by is not None and self._reader.goes_on

    def _wait(self) -> None:
        if self._reader.goes_on:
            before, self._spent = self._spent, time.thread_time()
            time.sleep(min(_REST * (self._spent - before), _LONGEST_REST))
        self._reader.wait(_SHOW_EVERY)

    def _run(self) -> Run:
        run = self._reader.run()
        if isinstance(run, Unreadable):
            raise ClusterError(run.reason)
        return run

    def _tell(self, before: Run, run: Run) -> None:
        for text in self._reader.news(before, run):
            self._view.say(text)
        if run.note and run.failed_task is None and run.note not in self._told:
            self._told.add(run.note)
            self._view.say(run.note)
        now = time.monotonic()
        if not self._reader.is_away():
            if self._told_of_silence:
                self._view.say("the cluster answers again")
            self._answered_at, self._told_of_silence = now, False
        elif not self._told_of_silence and now - self._answered_at > _AWAY:
            self._told_of_silence = True
            self._view.say("the cluster does not answer; the run may go on meanwhile")

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        if self._stopped_by is not None:
            raise KeyboardInterrupt
        # No more than that: what was interrupted may hold the lock of an event, or of a stream.
        self._stopped_by = number

    def _cancel(self, number: int, _frame: FrameType | None) -> None:
        is_first = self._stopped_by is None
        if is_first:
            self._stopped_by = number
            self._view.say("stopping; press Ctrl-C again to kill all tasks now")
        self._reader.interrupt(number)


def exit_status(run: Run) -> int:
    """Return the exit status for a job that is over: that of the task that failed it."""
    if run.outcome == "succeeded":
        return 0
    if run.outcome == "cancelled":
        return INTERRUPTED
    failed = next((task for task in run.tasks if task.name == run.failed_task), None)
    code = failed.exit_code if failed else None
    return code if code and code <= MOST_CODE else 1
