"""A step for many tasks of one node, which are alike: starting a step for each would take most of the time.

They share its memory. In it, one process starts them, by what it is told on its standard input.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import select
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pai_runtime.engine.local import PIPED_GROUP, Folder, Launch, python_argv
from pai_slurm.allocation import Place
from pai_slurm.srun import spawn

_ANSWERS: Final = 65536
_MOST_REQUESTS: Final = 1 << 20
"""Bytes of the pipe for requests, which are some hundred bytes each."""
_ENDED: Final = re.compile(rb"(-\d+) (\d+)")


class GroupStep:
    """A step for up to `most` tasks at a time, which starts with the first of them.

    `argv` is its ``srun`` without the command. Its log is in the folder of the run.
    """

    def __init__(self, argv: Sequence[str], place: Place, most: int, run: Folder) -> None:
        self.log = f"srun-{place.node}.log"
        self.pid: int | None = None
        self._argv = argv
        self._cpus = place.shape.cpu
        self._most = most
        self._run = run
        self._numbers: set[int] = set()
        self._input = self._output = -1
        self._left = b""

    def launch(self, number: int, what: Launch, secrets: Mapping[str, str]) -> None:
        """Start a task, which is then known by a number. Raises OSError."""
        if self.pid is None:
            self._begin(what.environment, secrets)
        self._ask("start", number, what.folder, what.options)
        self._numbers.add(number)

    def tell(self, number: int, what: int) -> None:
        """Tell a task to end as a signal would."""
        if number in self._numbers:
            with contextlib.suppress(OSError):  # of a step that is just ending, and its tasks with it
                self._ask("kill" if what == signal.SIGKILL else "stop", number)

    def ended(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of the tasks that have ended, with wait statuses."""
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
                    yield number, int(found[2])

    def has_ended(self, status: int) -> Iterator[tuple[int, int]]:
        """Yield what `ended` does, and the tasks that were left when the step ended with a wait status."""
        yield from self.ended()
        left, self._numbers, self.pid = self._numbers, set(), None
        self.close()
        for number in left:
            yield number, status

    def close(self) -> None:
        """Tell all tasks that run to end, and wait for the end of the step."""
        for fd in (self._input, self._output):
            if fd >= 0:
                os.close(fd)
        self._input = self._output = -1
        if self.pid is not None:
            os.waitpid(self.pid, 0)
            self.pid = None

    def _begin(self, environment: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        cpus = str(self._cpus)
        of_task = json.dumps({"SLURM_CPUS_PER_TASK": cpus})
        argv = [*self._argv, *python_argv(PIPED_GROUP, str(self._most), cpus, of_task)]
        self._output, output = os.pipe()
        try:
            log = self._run.append(self.log, 0o600)
            self.pid, self._input = spawn(argv, environment, secrets, log, output)
        finally:
            os.close(output)
        self._left = b""
        os.set_blocking(self._input, False)
        fcntl.fcntl(self._input, fcntl.F_SETPIPE_SZ, _MOST_REQUESTS)
        signal.signal(signal.SIGIO, lambda _number, _frame: None)  # its answers wake us, as does its end
        fcntl.fcntl(self._output, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._output, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)

    def _ask(self, *what: str | int) -> None:
        """Write a request, whole or not at all. Raises OSError."""
        request = json.dumps(what).encode() + b"\n"
        if len(request) > select.PIPE_BUF:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        os.write(self._input, request)
