"""A step for many tasks of one node, which are alike: starting a step for each would take most of the time.

They share its memory. In it, one process starts them, by what it is told on its standard input.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pai_runtime.engine.local import PIPED_GROUP, Folder, Launch, python_argv
from pai_slurm.allocation import Place
from pai_slurm.srun import last_words, spawn

_ANSWERS: Final = 65536
_KILLED_WITHIN: Final = 10.0
"""Seconds after which the whole step is killed if a task of it cannot be, and its srun if the step cannot."""
_AGAIN: Final = 0.01
_ENDED: Final = re.compile(rb"(-\d+) (\d+)")


class GroupStep:
    """A step for up to `most` tasks at a time, which starts with the first of them.

    `argv` is its ``srun`` without the command. Its log is in the folder of the run.
    """

    def __init__(self, argv: Sequence[str], place: Place, most: int, run: Folder) -> None:
        self.pid: int | None = None
        self._log = f"srun-{place.node}.log"
        self._argv = argv
        self._cpus = place.shape.cpu
        self._most = most
        self._run = run
        self._numbers: set[int] = set()
        self._killed: dict[int, float] = {}  # until when, by number (monotonic)
        self._begins_at = 0
        self._since: dict[str, int] = {}
        self._input = self._output = -1
        self._requests = self._left = b""

    def launch(self, number: int, what: Launch, secrets: Mapping[str, str]) -> None:
        """Start a task, which is then known by a number. Raises OSError."""
        if self.pid is None:
            self._begin(what.environment, secrets)
        self._since[what.folder] = self._begins_at
        self._numbers.add(number)
        self._ask("start", number, what.folder, what.options)

    def tell(self, number: int, what: int) -> None:
        """Tell a task to end as a signal would; told again later, if it is still not killed, end all."""
        if number not in self._numbers or self.pid is None:
            return
        if what != signal.SIGKILL:
            self._ask("stop", number)
        elif number not in self._killed:
            self._killed[number] = time.monotonic() + _KILLED_WITHIN
            self._ask("kill", number)
        elif time.monotonic() >= self._killed[number]:  # the step has not begun, or hangs
            self._killed = dict.fromkeys(self._numbers, time.monotonic() + _KILLED_WITHIN)
            os.kill(self.pid, signal.SIGTERM)

    def ended(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of the tasks that have ended, with wait statuses; ask what is not asked yet."""
        self._send()
        while self._output >= 0:
            try:
                piece = os.read(self._output, _ANSWERS)
            except BlockingIOError:
                return
            if not piece:
                return
            *lines, self._left = (self._left + piece).split(b"\n")
            for found in map(_ENDED.fullmatch, lines):  # a prolog of the cluster may print here, too
                if found and (number := int(found[1])) in self._numbers:
                    self._numbers.remove(number)
                    self._killed.pop(number, None)
                    yield number, int(found[2])

    def has_ended(self, status: int) -> Iterator[tuple[int, int]]:
        """Yield what `ended` does, and the tasks that were left when the step ended with a wait status."""
        yield from self.ended()
        left, self._numbers, self.pid = self._numbers, set(), None
        self._killed.clear()
        self.close()
        for number in left:
            yield number, status

    def last_words(self, folder: str) -> str:
        """Return what srun said of why the step of the task in a folder ended; empty if nothing."""
        return last_words(self._run, self._log, self._since.get(folder, 0))

    def close(self) -> None:
        """Tell all tasks that run to end, and with them the step."""
        for fd in (self._input, self._output):
            if fd >= 0:
                os.close(fd)
        self._input = self._output = -1

    def wait(self, until: float) -> None:
        """Wait for the end of a closed step; at a time (monotonic), kill it, and then its srun."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            while self.pid is not None and time.monotonic() < until:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    self.pid = None
                else:
                    time.sleep(_AGAIN)
            if self.pid is not None:
                os.kill(self.pid, number)
            until = time.monotonic() + _KILLED_WITHIN
        if self.pid is not None:
            os.waitpid(self.pid, 0)
            self.pid = None

    def _begin(self, environment: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        cpus = str(self._cpus)
        of_task = json.dumps({"SLURM_CPUS_PER_TASK": cpus})
        argv = [*self._argv, *python_argv(PIPED_GROUP, str(self._most), cpus, of_task)]
        signal.signal(signal.SIGIO, lambda _number, _frame: None)
        self._output, output = os.pipe()
        try:
            _wake_us(self._output)
            log = self._run.append(self._log, 0o600)
            self._begins_at = os.fstat(log).st_size
            self.pid, self._input = spawn(argv, environment, secrets, log, output)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(output)
        _wake_us(self._input)
        self._requests = self._left = b""

    def _ask(self, *what: str | int) -> None:
        self._requests += json.dumps(what).encode() + b"\n"
        self._send()

    def _send(self) -> None:
        """Write what the step is asked; what its pipe has no room for is left for later."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # or it is just ending, and all its tasks
            while self._requests and self._input >= 0:
                self._requests = self._requests[os.write(self._input, self._requests) :]


def _wake_us(pipe: int) -> None:
    """Make a pipe wake us by a signal whenever there is something to read, or room again."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_ASYNC)
