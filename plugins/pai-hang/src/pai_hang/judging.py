"""Whether a task hangs, from what has moved in it, and from where its processes are. Pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from pai_hang.places import Look
from pai_hang.processes import OF_A_FILE, RESTARTED, TIMED_WAIT, Process, is_named

_NOISE = 200
"""Bytes a second that processes read and write without getting anywhere, such as heartbeats of a store."""
_IDLE = 0.05
"""The share of one processor that a task which only waits uses at most."""
_PATIENCE = 2
"""How many times the longest silence that has ended by itself a further one may be."""

_OPENS = ("open", "openat", "connect")
_WAITS_FOR_OTHERS = ("futex", "recvfrom", "recvmsg")
_SLEEPS = (TIMED_WAIT, RESTARTED, "nanosleep", "clock_nanosleep", "poll", "ppoll", "select", "pselect6")
_NAPS = ("nanosleep", "clock_nanosleep")
_POLLS = ("epoll_wait", "epoll_pwait", "accept", "accept4")
_FORK_SERVER = "/multiprocessing/forkserver.py"
_COLLECTIVES = ("/torch/distributed/", "/horovod/", "/mpi4py/", "/jax/experimental/multihost_utils")


@dataclass(frozen=True)
class Sample:
    """What is seen of a command at a time: its processes, and when its output was last written to."""

    time: float
    processes: Sequence[Process]
    output: object = None

    @property
    def pids(self) -> frozenset[int]:
        """The ids of its processes."""
        return frozenset(process.pid for process in self.processes)

    @property
    def cpu(self) -> float:
        """Seconds of processors that they have used."""
        return sum(process.cpu for process in self.processes)

    @property
    def io(self) -> int:
        """Bytes that they have read and written."""
        return sum(process.io or 0 for process in self.processes)


@dataclass
class Silence:
    """How long nothing has moved: no output, no process that starts or ends, no I/O beyond noise.

    `after` is for how many seconds that is no matter; of a task that was silent for longer before, and went
    on, it takes twice as long as then. `before` is how long its output was silent before the first sample.
    """

    after: float
    before: float = 0
    since: Sample | None = None
    last: Sample | None = None
    longest: float = field(default=0)

    def feed(self, sample: Sample) -> bool:
        """Take the next sample; return whether something has moved."""
        before, self.last = self.last, sample
        if before is None or self.since is None:
            self.since = sample
            return False
        quiet = (
            sample.output == before.output
            and sample.pids == before.pids
            and sample.io - before.io <= _NOISE * (sample.time - before.time)
        )
        if not quiet:
            self.longest = max(self.longest, self.before + before.time - self.since.time)
            self.since, self.before = sample, 0
        return not quiet

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return self.last.time - self.since.time if self.last and self.since else 0

    @property
    def is_long(self) -> bool:
        """Whether it is longer than it may be."""
        return self.before + self.seconds >= max(self.after, _PATIENCE * self.longest)

    @property
    def is_idle(self) -> bool:
        """Whether the processors were idle meanwhile."""
        if self.last is None or self.since is None:
            return True
        return self.last.cpu - self.since.cpu <= _IDLE * max(self.seconds, 1)


def stuck(looks: Sequence[Look], may_wait: Callable[[int], bool]) -> list[Look]:
    """Return the processes that wait for what people do not wait for that long.

    A server waits for connections, a shell for its children, and a program that sleeps for the time. Who
    waits for a lock, or for data, is not stuck if it `may_wait`, or if its parent sleeps or polls, as that of
    a worker without work does, or a child sleeps; unless it `waits_for_others`. Those that do come last.
    The children of a fork server of Python are those of the process that has started it.
    """
    servers = {look.process.pid: look.process.parent for look in looks if _is_fork_server(look)}
    parents = {look.process.pid: look.process.parent for look in looks}
    parents |= {pid: servers[parent] for pid, parent in parents.items() if parent in servers}
    resting = {look.process.pid for look in looks if look.process.call in (*_SLEEPS, *_POLLS)}
    idle = {parents[look.process.pid] for look in looks if look.process.call in _NAPS}
    resting |= idle
    idle |= {look.process.pid for look in looks if parents[look.process.pid] in resting or _has_ended(look)}
    return sorted((look for look in looks if _is_stuck(look, idle, may_wait)), key=waits_for_others)


def stand_still(looks: Sequence[Sequence[Look]]) -> list[Look]:
    """Return the processes whose main thread is at one place, also in C if that is known, in several looks.

    Who waits for a GPU, or in MPI, keeps a processor busy, and so does who computes: of those that stand
    still, only who `waits_for_others` hangs. Of who `may_loop` it is not known whether they stand still.
    """
    first, *later = ({look.process.pid: look for look in each} for each in looks)
    return [
        look
        for pid, look in first.items()
        if look.main
        and not look.may_loop
        and all(pid in each and each[pid].stands_at == look.stands_at for each in later)
    ]


def cannot_run(look: Look) -> bool:
    """Return whether a signal has stopped a process, or it waits for a disk or file system."""
    return look.process.is_stopped or look.process.state == "D"


def waits_for_others(look: Look) -> bool:
    """Return whether a process waits in a collective operation, or for a GPU, on which these often run."""
    if look.device_wait:
        return True
    return look.main is not None and any(
        part in frame.file for frame in look.main.frames for part in _COLLECTIVES
    )


def _is_stuck(look: Look, idle: Collection[int], may_wait: Callable[[int], bool]) -> bool:
    process = look.process
    if cannot_run(look) or waits_for_others(look):
        return True
    if look.waits_for_children:
        return False
    if process.call in OF_A_FILE and (is_named(process.file) or process.file.startswith("socket:")):
        return is_named(process.file) or not may_wait(process.pid)
    if process.call in _OPENS:
        return True
    if process.call in _SLEEPS:
        return any(thread.has_gil for thread in look.stacks.threads)  # who only sleeps lets others run
    return process.call in _WAITS_FOR_OTHERS and process.pid not in idle and not may_wait(process.pid)


def _is_fork_server(look: Look) -> bool:
    """Return whether a process is one that forks workers of `multiprocessing`, and no worker itself."""
    frames = look.main.frames if look.main else ()
    own = [frame.function for frame in frames if frame.file.endswith(_FORK_SERVER)]
    return own == ["main"]


def _has_ended(look: Look) -> bool:
    """Return whether a program has ended but for its threads, such as a timer."""
    return look.main is not None and look.main.frames[-1].function == "_shutdown"


def below(processes: Sequence[Process], root: int) -> list[Process]:
    """Return a process and all below it, of processes that come after their parents."""
    pids: Collection[int] = {root}
    found = []
    for process in processes:
        if process.pid in pids or process.parent in pids:
            pids = {*pids, process.pid}
            found.append(process)
    return found
