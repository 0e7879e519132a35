"""Which tasks of a gang have passed the barrier: once all have, nobody looks for the name of a pod any more.

What prints the log of a task starts once init has passed the barrier, so whoever answers here has passed it.
Each asks the others, a datagram to each of those that have not answered yet, and answers them; the answer of
one that has heard of all counts for all. Nothing is kept of what others send: an answer repeats the question,
with a number that only who was asked can know. Where nothing answers, as where a network policy does not let
datagrams pass, nothing is learned.

A question is ``?``, the number, and the name of the task that is asked in its attempt of the run. Only that
task answers: with ``+``, or with ``*`` if all have passed, and the rest of the question.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder
from pai_task.layout import PLAN, SHARED
from pai_task.names import JOB_ATTEMPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    TaskName = tuple[str, int]

ASK_EVERY = 0.5
"""Seconds between two rounds of questions."""
ASKED_AT_ONCE = 100
"""Maximum number of questions in one round."""
STAYS = 3.0
"""Seconds for which one that knows of all answers before it leaves: others may have heard of nobody yet."""
MOST_HEARD = 1000
"""Maximum number of datagrams that one `PassedBarrier.look` reads; it is called twice a second."""

_NUMBER_BYTES = 16
_HAS_PASSED, _ALL_HAVE_PASSED = b"+", b"*"
_MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of ``plan.json``, and of ``shared.json``; the kernel allows a smaller environment."""


class PassedBarrier:
    """Finds out whether all tasks of a gang have passed the barrier, by questions to the others.

    `own` is the name of this task in its attempt of the run, `peers` maps the names of the others to their
    addresses. It asks for `seconds`, and answers for twice as long, as others start later. Nothing happens
    but in `look`. Raises OSError if the port is taken, or an address is not of the family of its own.
    """

    def __init__(
        self,
        own: str,
        address: str,
        peers: Mapping[str, str],
        port: int,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own, self._port, self._now = own.encode(), port, now
        # Each in another order, so that not all ask the same one at once.
        names = sorted(peers, key=lambda _: os.urandom(8))
        self._missing = {name.encode(): peers[name] for name in names}
        self._heard_of_all_at: float | None = None
        self._number = os.urandom(_NUMBER_BYTES)
        began = now()
        self._asks_next, self._asks_until, self._answers_until = began, began + seconds, began + 2 * seconds
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for each in peers.values():
            socket.inet_pton(family, each)  # a name would have to be looked up
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind((address, port))
        except (OSError, OverflowError):
            self.close()
            raise

    @property
    def by_all(self) -> bool:
        """Whether all tasks have passed the barrier, as far as this one has heard."""
        return not self._missing

    @property
    def may_leave(self) -> bool:
        """Whether all have, and those that do not know it yet have had the time to ask."""
        return self._heard_of_all_at is not None and self._now() >= self._heard_of_all_at + STAYS

    def look(self) -> None:
        """Ask what is due, and read and answer what has come, without waiting."""
        now = self._now()
        if now >= self._answers_until:
            self.close()
        if self._socket.fileno() < 0:
            return
        if self._missing and self._asks_next <= now < self._asks_until:
            self._asks_next = now + ASK_EVERY
            self._ask()
        self._hear()
        if self.by_all and self._heard_of_all_at is None:
            self._heard_of_all_at = now

    def close(self) -> None:
        """Close the socket: from now on, nothing is asked or answered."""
        self._socket.close()

    def _ask(self) -> None:
        for name, address in list(self._missing.items())[:ASKED_AT_ONCE]:
            self._missing[name] = self._missing.pop(name)  # the others come first the next time
            self._send(b"?" + self._number + name, (address, self._port))

    def _hear(self) -> None:
        for _ in range(MOST_HEARD):
            try:
                data, sender = self._socket.recvfrom(1024)
            except OSError:
                return  # there is none left
            kind, number, name = data[:1], data[1 : _NUMBER_BYTES + 1], data[_NUMBER_BYTES + 1 :]
            if kind == b"?" and name == self._own:
                self._send((_ALL_HAVE_PASSED if self.by_all else _HAS_PASSED) + data[1:], sender)
            elif number == self._number and name in self._missing:
                if kind == _ALL_HAVE_PASSED:
                    self._missing.clear()
                elif kind == _HAS_PASSED:
                    del self._missing[name]

    def _send(self, data: bytes, to: tuple[object, ...]) -> None:
        with suppress(OSError):  # as if it were lost
            self._socket.sendto(data, to)


def passed_barrier(runtime: Path, port: str, seconds: float) -> PassedBarrier | None:
    """Return a `PassedBarrier` for the task whose runtime directory this is, at a UDP port.

    None if the port is not a number or is taken, or if the task is alone or in no gang.
    """
    if not port.isdecimal():
        return None
    try:
        with Folder.at(runtime, follow=False) as folder:
            plan = loads_untrusted(folder.read(PLAN, _MOST_BYTES))
            shared = loads_untrusted(folder.read(SHARED, _MOST_BYTES))
        addresses = _addresses(plan["instances"], shared["peers"])
        own = plan["role"], plan["index"]
        address = addresses.pop(own)
        if plan["gang"] is not True or not addresses:
            return None
        (attempt,) = (each["value"] for each in plan["environment"] if each["name"] == JOB_ATTEMPT)
        peers = {f"{attempt}/{role}/{index}": each for (role, index), each in addresses.items()}
        return PassedBarrier(f"{attempt}/{own[0]}/{own[1]}", address, peers, int(port), seconds)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None  # it has no peers, the task has made something else of it, or the port is taken


def _addresses(instances: Mapping[str, int], peers: Mapping[str, str]) -> dict[TaskName, str]:
    """Return the addresses of all tasks by role and index.

    Raises LookupError or ValueError if one is unknown.
    """
    if sum(instances.values()) > len(peers):
        raise ValueError("more tasks than variables about them")
    return {
        (role, index): peers[f"PAI_HOST_IP_{role}_{index}"]
        for role, count in instances.items()
        for index in range(count)
    }
