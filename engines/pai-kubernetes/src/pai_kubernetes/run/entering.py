"""Programs that people run in a task of a cluster, on their own terminal or pipes."""

import contextlib
import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Generator, Sequence
from types import FrameType
from typing import Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.pod_exec import STDOUT, PodExec
from pai_kubernetes.labels import APP
from pai_pod.engine import enter_argv
from pai_runtime.engine import CannotEnter

_KEYS: Final = 4096
_LONGEST_TYPE: Final = 64
"""Maximum characters of the value of ``TERM``."""
_DEFAULT_TYPE: Final = "xterm"


def enter(api: Api, pod: str, argv: Sequence[str]) -> int:
    """Run a program in a task's container, or a shell, with our standard streams; return its exit status.

    Raises `CannotEnter`.
    """
    terminal = _terminal_type() if os.isatty(0) and os.isatty(1) else ""
    try:
        program = PodExec(api, pod, APP, enter_argv(terminal, argv), stdin=True, terminal=bool(terminal))
        with contextlib.closing(program), _Session(program) as session:
            if not terminal:
                return session.run()
            with _raw_terminal():
                return session.run(has_terminal=True)
    except ApiError as error:
        raise CannotEnter(str(error)) from None


def _terminal_type() -> str:
    given = os.environ.get("TERM", "")
    return given if 0 < len(given) <= _LONGEST_TYPE and given.isprintable() else _DEFAULT_TYPE


@contextlib.contextmanager
def _raw_terminal() -> Generator[None, None, None]:
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)
        yield
    finally:
        with contextlib.suppress(termios.error):  # it is gone
            termios.tcsetattr(0, termios.TCSADRAIN, before)


class _Session:
    """A context in which output is copied by a thread, and input here, until the program has ended."""

    def __init__(self, program: PodExec) -> None:
        self._program = program
        self._error: ApiError | OSError | None = None
        self._wakes, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._copy_output, daemon=True)

    def __enter__(self) -> "_Session":  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(self, *error: object) -> None:
        self._program.close()
        self._thread.join()
        os.close(self._wakes)
        os.close(self._wake)

    def run(self, *, has_terminal: bool = False) -> int:
        """Copy until the program has ended, and return its exit status. Raises `ApiError`."""
        before = signal.signal(signal.SIGWINCH, self._resized) if has_terminal else None
        try:
            if has_terminal:
                self._resize()
            self._thread.start()
            self._copy_input(has_terminal=has_terminal)
        finally:
            if has_terminal:
                signal.signal(signal.SIGWINCH, before)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._program.status or 0

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake, b"r")

    def _resize(self) -> None:
        with contextlib.suppress(OSError):
            self._program.resize(*os.get_terminal_size(0))

    def _copy_input(self, *, has_terminal: bool) -> None:
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        poll.register(0, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == 0:
                    if keys := os.read(0, _KEYS):
                        self._program.send(keys)
                    else:
                        self._program.end_input()
                        poll.unregister(0)
                elif b"e" in os.read(self._wakes, _KEYS):
                    return
                elif has_terminal:
                    self._resize()

    def _copy_output(self) -> None:
        try:
            while received := self._program.receive():
                channel, data = received
                target = 1 if channel == STDOUT else 2
                while data:
                    data = data[os.write(target, data) :]
        except (ApiError, OSError) as error:
            self._error = error
        finally:
            os.write(self._wake, b"e")
