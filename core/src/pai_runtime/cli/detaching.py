"""A run that outlives the terminal although its engine needs a process: it has one of its own."""

import contextlib
import os
import signal
from collections.abc import Callable
from functools import partial

from pai_runtime.runs.state import Run
from pai_runtime.terminal.output import drop_streams, flush, keep_streams
from pai_task.exit_codes import killed_by

LetGo = Callable[[], None]


def in_own_session(work: Callable[[LetGo], int]) -> int:
    """Do `work` in a process that neither the end of this one nor that of the terminal ends.

    `work` gets a function to call once nothing is left to tell, and returns an exit status. Here, return 0 as
    soon as it has called that, else its exit status; there, its exit status.
    """
    answer, tell = os.pipe()
    flush()
    child = os.fork()
    if not child:
        os.close(answer)
        os.setsid()
        keep_streams()
        return work(partial(_let_go, tell))
    os.close(tell)
    if _answered(child, answer):
        return 0
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else killed_by(-code)


class Unseen:
    """A view of a run that nobody sees; it lets go once a task has started, as others can see by then."""

    def __init__(self, let_go: LetGo) -> None:
        self._let_go: LetGo | None = let_go

    def say(self, text: str) -> None:
        """Do nothing."""

    def show(self, run: Run) -> None:
        """Let go, if that is the first such state."""
        if self._let_go and any(task.state != "waiting" for task in run.tasks):
            self._let_go()
            self._let_go = None

    def end(self) -> None:
        """Do nothing."""


def _answered(child: int, answer: int) -> bool:
    """Wait until a process lets go; return False if it ends before. Ctrl-C is passed on to it."""
    while True:
        try:
            return bool(os.read(answer, 1))
        except KeyboardInterrupt:
            os.kill(child, signal.SIGINT)  # not waited for yet, so this is still its process id


def _let_go(tell: int) -> None:
    drop_streams()
    with contextlib.suppress(OSError):  # who waited may be gone
        os.write(tell, b"\0")
    os.close(tell)
