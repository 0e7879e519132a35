"""Programs that people run in a task of this machine, on their own terminal or pipes."""

import contextlib
import json
import os
import select
import signal
import socket
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from fcntl import ioctl
from types import FrameType
from typing import NoReturn

from pai_runtime.runs.errors import CannotEnter
from pai_task.exit_codes import killed_by
from pai_task.folder import Folder
from pai_task.session import MOST_MESSAGE
from pai_task.session_socket import ask, connect, read_answer
from pai_task.signals import STOP_SIGNALS, on_stop_signals

_STANDARD = (0, 1, 2)
_FORWARDED = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_PASSED_ON = (*STOP_SIGNALS, *_FORWARDED)
_PIECE = 65536
_MOST_KEYS = 4096
"""Maximum bytes of input that wait for the program to read them."""
_LAST_OUTPUT = 2000
"""Milliseconds without output after which the terminal of an ended program is closed."""


def enter(task: Folder, argv: Sequence[str]) -> int:
    """Run a program in a task, or a shell, with our standard streams; its exit status.

    If they are a terminal it gets one of its own, which ours shows; if only one of them is, a pipe in its
    place. Signals that we get are passed on. Raises `CannotEnter`.
    """
    try:
        with connect(task) as connection:
            if os.isatty(0) and os.isatty(1):
                return _status(_with_terminal(connection, argv))
            # One that comes when the program has begun, and we do not listen yet, would end us without it.
            signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
            with _without_terminal() as streams:
                _ask(connection, argv, streams.given, terminal=False)
                _forward_signals(connection)
                streams.pass_on()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
                return _status(_answer(connection))
    except (FileNotFoundError, ConnectionRefusedError):
        raise CannotEnter("it is not running; exec needs a task that is running or held") from None
    except PermissionError:
        raise CannotEnter("only the user who started the run can use exec in its tasks") from None
    except OSError as error:
        raise CannotEnter(f"cannot reach its supervisor: {error.strerror}") from None


class _Streams:
    """Our standard streams, for a program; pipes for what are a terminal, which it could read or change."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self._copies: list[tuple[int, int]] = []
        for fd in _STANDARD:
            if not os.isatty(fd):
                self.given.append(os.dup(fd))
                continue
            reads, writes = os.pipe()
            self.given.append(writes if fd else reads)
            self._copies.append((reads, fd) if fd else (fd, writes))
        self._outputs: list[threading.Thread] = []

    def pass_on(self) -> None:
        """Begin to, once the program has its streams, which are closed here."""
        for fd in self.given:
            os.close(fd)
        for source, target in self._copies:
            thread = threading.Thread(target=_copy, args=(source, target), daemon=True)
            thread.start()
            if source:
                self._outputs.append(thread)

    def finish(self) -> None:
        """Pass on the last output, unless something goes on to hold it open."""
        for thread in self._outputs:
            thread.join(_LAST_OUTPUT / 1000)


@contextlib.contextmanager
def _without_terminal() -> Iterator[_Streams]:
    streams = _Streams()
    yield streams
    streams.finish()


def _copy(source: int, target: int) -> None:
    """Pass on all of a stream; the target is closed then, if it is no standard stream."""
    with contextlib.suppress(OSError):
        while piece := os.read(source, _PIECE):
            while piece:
                piece = piece[os.write(target, piece) :]
    if target not in _STANDARD:
        os.close(target)


def _ask(connection: socket.socket, argv: Sequence[str], streams: Sequence[int], *, terminal: bool) -> None:
    variables = {"TERM": os.environ["TERM"]} if terminal and "TERM" in os.environ else {}
    try:
        ask(connection, argv, streams, terminal=terminal, variables=variables)
    except ValueError as error:
        raise CannotEnter(str(error)) from None


def _answer(connection: socket.socket) -> bytes:
    try:
        return connection.recv(MOST_MESSAGE)
    except ConnectionResetError:  # the supervisor was killed
        return b""


def _status(answer: bytes) -> int:
    """Return the exit status in an answer, which the task may have forged.

    Raises `CannotEnter` if it is invalid.
    """
    if not answer:
        return killed_by(signal.SIGKILL)  # with all that is left of a task when it ends
    try:
        code, message = read_answer(answer)
    except ValueError as error:
        raise CannotEnter(str(error)) from None
    if message is not None:
        raise CannotEnter(message, code)
    return code


def _forward_signals(connection: socket.socket) -> None:
    def send(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            connection.send(json.dumps({"signal": number}).encode())

    on_stop_signals(send)
    for number in _FORWARDED:
        signal.signal(number, send)


class _HangUp(BaseException):
    """The exception by which a stop signal ends the session."""

    def __init__(self, number: int) -> None:
        self.number = number


def _with_terminal(connection: socket.socket, argv: Sequence[str]) -> bytes:
    """Run a program with a terminal of its own; return the final answer."""
    ours, its = os.openpty()

    def resize(_number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            ioctl(ours, termios.TIOCSWINSZ, ioctl(0, termios.TIOCGWINSZ, bytes(8)))

    def hang_up(told: int, _frame: FrameType | None) -> NoReturn:
        raise _HangUp(told)

    with os.fdopen(ours, "rb", buffering=0):
        resize(0, None)
        try:
            _ask(connection, argv, (its, its, its), terminal=True)
        finally:
            os.close(its)
        before = termios.tcgetattr(0)
        try:
            on_stop_signals(hang_up)
            signal.signal(signal.SIGWINCH, resize)
            tty.setraw(0, termios.TCSADRAIN)  # what has been typed by now is for the program
            return _Proxy(connection, ours).run()
        except _HangUp as told:
            return json.dumps({"exitCode": killed_by(told.number)}).encode()
        finally:
            with contextlib.suppress(termios.error):  # it is gone
                termios.tcsetattr(0, termios.TCSADRAIN, before)


class _Proxy:
    """A proxy that copies keys to a program's terminal, and its output to ours, until it has ended."""

    def __init__(self, connection: socket.socket, terminal: int) -> None:
        self._connection = connection
        self._terminal = terminal
        self._keys = b""
        self._answer: bytes | None = None
        self._is_open = self._has_input = True
        self._poll = select.poll()
        for fd in (0, terminal, connection.fileno()):
            self._poll.register(fd, select.POLLIN)
        os.set_blocking(terminal, False)

    def run(self) -> bytes:
        """Copy until the program has ended, and return the final answer."""
        while self._answer is None or self._is_open:
            ready = self._poll.poll(None if self._answer is None else _LAST_OUTPUT)
            if not ready:
                break
            for fd, _ in ready:
                if fd == 0:
                    self._read_keys()
                elif fd == self._terminal:
                    self._write_keys()
                    self._show()
                else:
                    self._answer = _answer(self._connection)
                    self._poll.unregister(fd)
            if self._has_input:
                self._poll.modify(0, select.POLLIN if len(self._keys) < _MOST_KEYS else 0)
            if self._is_open:
                self._poll.modify(self._terminal, select.POLLIN | (select.POLLOUT if self._keys else 0))
        return self._answer or b""

    def _read_keys(self) -> None:
        keys = os.read(0, _MOST_KEYS)
        self._keys += keys
        if not keys:  # our terminal is gone
            self._has_input = False
            self._poll.unregister(0)
        self._write_keys()

    def _write_keys(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._keys = self._keys[os.write(self._terminal, self._keys) :] if self._keys else b""

    def _show(self) -> None:
        try:
            output = os.read(self._terminal, _PIECE)
        except BlockingIOError:
            return
        except OSError:  # nobody has it open at the other end
            output = b""
        if not output:
            self._poll.unregister(self._terminal)
            self._is_open = False
        while output:
            output = output[os.write(1, output) :]
