"""The peer barrier: a task starts only when the names of all tasks of its run resolve to their pods.

It stands where no FrameworkController knows the pods, and a pod has no access to the Kubernetes API: the
names are those that a headless service gives to pods. What is looked up once is not looked up again, so a pod
that takes the place of another one later, with another address, is not noticed.

The name server is not pressed, however many pods start at once. A pod asks for one name at a time: for its
own first, then for the others in the order of the job, and it pauses once a few have not been found. So it
makes one lookup for each task, and at most `MOST_MISSED` in vain between two pauses; a lookup is two requests
(A, AAAA). Between lookups it waits, so that all pods of a run together make `PER_SECOND` at most: in a run of
2,000 tasks, which are four million lookups, each pod makes ten in a second, and is done after 200 seconds.
"""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path

from pai_document.printable import printable
from pai_network.deadline import Deadline, within
from pai_pod.addresses import is_address
from pai_pod.errors import BarrierFailed
from pai_runtime.plugin.backoff import backoff
from pai_task.exit_codes import INIT_GANG_TIMEOUT
from pai_task.regular_file import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pai_pod.peers import Peers
    from pai_runtime.plan.environment import TaskName

    Resolve = Callable[[str], Sequence[str]]
    """The addresses that a name has; raises OSError."""

MOST_MISSED = 8
"""Number of failed lookups after which the barrier pauses."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
"""Bounds in seconds of the pause."""
PER_SECOND = 20_000
"""Maximum lookups per second of all pods of a run together."""
LOOKUP_SECONDS = 5.0
"""Timeout of one lookup in seconds; the system's resolver takes minutes if no server answers."""
SECONDS_OF_ROUND = 30.0
"""Timeout in seconds of the only round if a task does not wait for the others."""

_RESOLVER = Path("/etc/resolv.conf")
_MOST_NAMES = 5
_MOST_OF_CONFIGURATION = 1 << 16


def find_addresses(
    peers: Peers,
    names: Mapping[TaskName, str],
    own: TaskName,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> dict[TaskName, str]:
    """Return the addresses of all tasks of a gang, else of those that have one now. Raises `BarrierFailed`.

    No pod of a gang is replaced while the others run: all of them are started again, so all of them wait.
    `names` are those of the hosts. `say` takes a line for the log. A signal ends the wait at once if its
    handler raises an exception.
    """
    domain = cluster_domain(environment.get("PAI_POD_NAMESPACE", ""), _RESOLVER)
    told = environment.get("POD_IP", "")
    search = PeerSearch(names, own, told if is_address(told) else None, partial(resolve, domain=domain))
    if is_address(told) and len(names) == 1:
        return {own: told}
    if peers.gang:
        search.wait_for_all(Deadline(peers.barrier_seconds), say)
    else:
        search.once(Deadline(SECONDS_OF_ROUND))
        if is_address(told):
            search.found[own] = told
        if len(search.found) < len(names):
            say(f"{search.progress()}; they are known by their names")
    return search.found


class PeerSearch:
    """A search for the tasks of a run by their names, which remembers what it has found.

    `own` is this task, with its address if known. `resolve` replaces the system's resolver, `draw`
    `random.uniform`.
    """

    def __init__(
        self,
        names: Mapping[TaskName, str],
        own: TaskName,
        own_address: str | None,
        resolve: Resolve,
        draw: Callable[[float, float], float] | None = None,
    ) -> None:
        from random import uniform  # noqa: PLC0415 - as in `backoff`

        self._names = names
        self._order = sorted(names, key=lambda task: task != own)
        self._own, self._own_address = own, own_address
        self._resolve = resolve
        self._draw = draw or uniform
        self._pause = len(names) / PER_SECOND
        self._reason = ""
        self.found: dict[TaskName, str] = {}
        self.missed: list[TaskName] = []

    def once(self, deadline: Deadline, most_missed: int | None = None) -> None:
        """Look up the names not found yet; stop after `most_missed` failures, or if our own name fails.

        As long as our own name is unknown, others need not be looked up.
        """
        self.missed, self._reason = [], ""
        for task in self._order:
            if task in self.found:
                continue
            address = self._address(task, min(LOOKUP_SECONDS, deadline.left()))
            if address is None:
                self.missed.append(task)
            else:
                self.found[task] = address
            enough = 1 if task == self._own else most_missed
            if most_missed is not None and len(self.missed) == enough:
                break
            if not deadline.wait(self._draw(0, 2 * self._pause)):
                break

    def wait_for_all(self, deadline: Deadline, say: Callable[[str], None]) -> None:
        """Look up names until all are found. Raises `BarrierFailed`. `say` takes a line for the log."""
        rounds, said = 0, -1
        while True:
            self.once(deadline, MOST_MISSED)
            if len(self.found) == len(self._names):
                return
            if len(self.found) != said:
                say(self.progress())
                said = len(self.found)
            rounds += 1
            if not deadline.wait(backoff(rounds, FIRST_PAUSE, LONGEST_PAUSE, self._draw)):
                raise BarrierFailed(INIT_GANG_TIMEOUT, f"{self.progress()}{self._advice()}")

    def progress(self) -> str:
        """Describe how many tasks are not found yet, and name some of them."""
        tasks = len(self._names)
        left = tasks - len(self.found)
        shown = (self.missed or [task for task in self._order if task not in self.found])[:_MOST_NAMES]
        names = ", ".join(f"{role}/{index}" for role, index in shown)
        more = f" and {left - len(shown)} more" if left > len(shown) else ""
        return f"{left} of {tasks} tasks are not found yet: {printable(names)}{more}{self._reason}"

    def _advice(self) -> str:
        if self._own not in self.found:
            name = self._names[self._own]
            service = name.partition(".")[2]
            return (
                f". This task's own name, {name}, is among them: look at the cluster's name server (CoreDNS),"
                f" at the headless service '{service}', and whether network policies let pods ask"
            )
        return ". Look at why their pods do not run: the cluster may have no room for the whole job at once"

    def _address(self, task: TaskName, seconds: float) -> str | None:
        """Return the only address of a task; None if it has several, one of which may be an earlier pod's."""
        try:
            found = within(seconds, partial(self._resolve, self._names[task]))
        except (OSError, UnicodeError) as error:
            self._reason = f" ({getattr(error, 'strerror', None) or 'the name server does not answer'})"
            return None
        addresses = list(dict.fromkeys(found))
        own = self._own_address
        if task == self._own and own is not None:
            return own if own in addresses else None
        # One of each family is the rule in a network with two; ours is the one that all pods have.
        if own is not None:
            addresses.sort(key=lambda each: (":" in each) != (":" in own))
        alike = [each for each in addresses if (":" in each) == (":" in addresses[0])]
        return alike[0] if len(alike) == 1 else None


def resolve(name: str, domain: str = "") -> list[str]:
    """Return the addresses of a name, as the system's resolver finds them. Raises OSError.

    `domain` is the domain that it is in, if known. Otherwise the system tries its search domains in turn, and
    one outside the cluster may answer to every name.
    """
    host = f"{name}.{domain}." if domain else name
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def cluster_domain(namespace: str, configuration: Path) -> str:
    """Return the domain of a namespace's services by ``resolv.conf``; empty if it does not say."""
    try:
        with open_regular(configuration) as file:
            text = file.read(_MOST_OF_CONFIGURATION).decode("ascii", "replace")
    except OSError:
        return ""
    searched = [line.split()[1:] for line in text.splitlines() if line.startswith("search ")]
    own = f"{namespace}.svc."
    return next((each.rstrip(".") for words in searched for each in words if each.startswith(own)), "")
