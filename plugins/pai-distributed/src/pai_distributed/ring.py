"""A ring of tasks, each connected to the one before and the one after it, and what they measure over it.

Whoever reaches the port may connect to it, so all that comes is read in pieces of known size, with a timeout.
"""

import array
import contextlib
import hashlib
import math
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pai_distributed.addresses import Address
from pai_runtime.plugin import backoff

_HELLO: Final = struct.Struct("!8s32sI")
_CLOCK: Final = struct.Struct("!d")
_MAGIC: Final = b"pai-ring"
_PROBES: Final = 8
_PIECE: Final = 1 << 20
_PIECES: Final = 64
"""MiB that each task sends to the next one."""
_WORDS: Final = 1024
_GREETING: Final = 5.0
"""Seconds in which who connects has to say who it is."""
_EXCHANGE: Final = 60.0
"""Seconds in which each exchange of two tasks has to end."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0

Clock = Callable[[], float]


class PeerFault(Exception):
    """A peer that did not come, or did not answer; the text says which and why."""


@dataclass(frozen=True)
class Place:
    """The place of a task in a ring: its index among the `addresses` of all, and what this ring is called."""

    index: int
    addresses: tuple[Address, ...]
    name: str

    @property
    def before(self) -> int:
        """The index of the task that sends to this one."""
        return (self.index - 1) % len(self.addresses)

    @property
    def after(self) -> int:
        """The index of the task that this one sends to."""
        return (self.index + 1) % len(self.addresses)

    def hello(self, index: int) -> bytes:
        """Return what the task with that index says first."""
        return _HELLO.pack(_MAGIC, hashlib.sha256(self.name.encode()).digest(), index)


@dataclass(frozen=True)
class Measured:
    """What was measured: bytes per second from the task before, and seconds that its clock is ahead."""

    bytes_per_second: float
    clock_ahead: float


def measure(place: Place, seconds: float, clock: Clock = time.time) -> Measured:
    """Connect to both neighbours, once all are there, and measure. Raises `PeerFault`.

    `seconds` is how long to wait for them.
    """
    until = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listener(place.addresses[place.index]))
        after = stack.enter_context(_connected(place, until))
        before = stack.enter_context(_accepted(listener, place, until))
        # Nobody measures while others still wait: a sum of all needs every task.
        for each in (before, after):
            each.settimeout(max(0.1, until - time.monotonic()))
        _check_sum(place, before, after)
        for each in (before, after):
            each.settimeout(_EXCHANGE)
        with _named(place.before):
            ahead = _both(lambda: _answer_probes(after, clock), lambda: _clock_ahead(before, clock))
        with _named(place.before):
            rate = _both(lambda: _send_pieces(after), lambda: _received_rate(before))
        _check_sum(place, before, after)
    return Measured(rate, ahead)


@contextlib.contextmanager
def _named(index: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PeerFault(f"task {index}: {error.strerror or error}") from None


def _listener(own: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in own.host else socket.AF_INET
    try:
        return socket.create_server(("", own.port), family=family)
    except OSError as error:
        raise PeerFault(f"port {own.port} of this task: {error.strerror or error}") from None


def _connected(place: Place, until: float) -> socket.socket:
    """Return a connection to the next task, which may not listen yet."""
    address, attempts = place.addresses[place.after], 0
    while True:
        attempts += 1
        try:
            connection = socket.create_connection(address, max(0.1, min(5.0, until - time.monotonic())))
            try:
                connection.sendall(place.hello(place.index))
            except OSError:
                connection.close()
                raise
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return connection
        if (left := until - time.monotonic()) <= 0:
            raise PeerFault(f"task {place.after} cannot be reached at {address}: {why}")
        time.sleep(min(backoff(attempts, _FIRST_PAUSE, _LONGEST_PAUSE), left))


def _accepted(listener: socket.socket, place: Place, until: float) -> socket.socket:
    """Return the connection of the task before; whoever else connects is sent away."""
    while (left := until - time.monotonic()) > 0:
        listener.settimeout(left)
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        connection.settimeout(_GREETING)
        try:
            if _read(connection, _HELLO.size, _GREETING) == place.hello(place.before):
                return connection
        except OSError:
            pass
        connection.close()
    raise PeerFault(f"task {place.before} did not come")


def _both(send: Callable[[], None], receive: Callable[[], float]) -> float:
    """Do both at the same time, and return what the second one does."""
    faults: list[OSError] = []

    def sending() -> None:
        try:
            send()
        except OSError as error:
            faults.append(error)

    thread = threading.Thread(target=sending, daemon=True)
    thread.start()
    received = receive()
    thread.join(_EXCHANGE)
    if thread.is_alive():
        raise TimeoutError("it takes nothing more")
    if faults:
        raise faults[0]
    return received


def _clock_ahead(before: socket.socket, clock: Clock) -> float:
    """Return how far the clock at the other end is ahead, by the quickest of some questions."""
    found = []
    for _ in range(_PROBES):
        began = time.monotonic()
        before.sendall(b"?")
        theirs = float(_CLOCK.unpack(_read(before, _CLOCK.size))[0])
        took = time.monotonic() - began
        found.append((took, theirs + took / 2 - clock()))
    return min(found)[1]


def _answer_probes(after: socket.socket, clock: Clock) -> None:
    for _ in range(_PROBES):
        _read(after, 1)
        after.sendall(_CLOCK.pack(clock()))


def _send_pieces(after: socket.socket) -> None:
    piece = bytes(_PIECE)
    for _ in range(_PIECES):
        after.sendall(piece)


def _received_rate(before: socket.socket) -> float:
    _read(before, _PIECE)  # the other one may begin later
    began = time.monotonic()
    for _ in range(_PIECES - 1):
        _read(before, _PIECE)
    return _PIECE * (_PIECES - 1) / max(time.monotonic() - began, 1e-6)


def _check_sum(place: Place, before: socket.socket, after: socket.socket) -> None:
    """Sum numbers of all tasks, as an all-reduce does, passing them on around the ring."""
    count = len(place.addresses)
    passed = array.array("q", (place.index + word for word in range(_WORDS)))
    total = passed[:]
    for _ in range(count - 1):
        with _named(place.after):
            after.sendall(passed.tobytes())
        with _named(place.before):
            passed = array.array("q", _read(before, passed.itemsize * _WORDS))
        total = array.array("q", map(sum, zip(total, passed, strict=True)))
    if any(total[word] != count * (count - 1) // 2 + count * word for word in range(_WORDS)):
        raise PeerFault("the sum over all tasks is wrong")


def _read(connection: socket.socket, size: int, seconds: float = math.inf) -> bytes:
    """Return that many bytes. Raises OSError at the end, at the connection's timeout, or after `seconds`."""
    data, until = bytearray(size), time.monotonic() + seconds
    view = memoryview(data)
    while view:
        if time.monotonic() > until:
            raise TimeoutError("it is too slow")
        if not (count := connection.recv_into(view)):
            raise ConnectionResetError(0, "it closed the connection")
        view = view[count:]
    return bytes(data)
