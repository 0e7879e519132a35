"""Where the processes of tasks are, in words, grouped, and which task is elsewhere than all others. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pai_hang.processes import Process
from pai_hang.stacks import Frame, Stacks, Thread, main_thread

_WAITS_FOR_CHILDREN = ("wait4", "waitid")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ")
_MODULE = "<module>"
_WRAPPERS = ("wrapper", "wrapped", "inner", "decorate_context", "__call__")
"""Functions between a caller and what it means to call."""
_OF_DEVICES = re.compile(
    r"(cu|cuda|hip)\w*(Synchronize|Memcpy)\w*|P?MPI_\w+|nccl[A-Z]\w*|hsa_signal_wait\w*", re.ASCII
)
"""Functions of C that wait for a GPU, or for other processes, while they keep a processor busy."""
_MOST_NAMED = 8
_MOST_PLACES = 2


@dataclass(frozen=True)
class Look:
    """One process of a task with its stacks, at one moment.

    `addresses` are those of its ends of its connections, `silent_peers` of the others' that do not answer.
    """

    task: str
    process: Process
    stacks: Stacks
    addresses: frozenset[str] = frozenset()
    silent_peers: tuple[str, ...] = ()

    @property
    def main(self) -> Thread | None:
        """Its main thread; None if no stack of it is known."""
        return main_thread(self.process, self.stacks.threads)

    @property
    def device_wait(self) -> str:
        """The function of C in which its main thread waits for a GPU or a peer; empty if none is known."""
        names = self.main.native if self.main else ()
        return next(filter(_OF_DEVICES.fullmatch, names), "")

    @property
    def stands_at(self) -> object:
        """What stays the same while its main thread gets nowhere, whatever a library does within its wait."""
        if self.main is None:
            return None
        names = self.main.native
        own = names[: names.index(self.device_wait)] if self.device_wait else ()
        return self.main.frames, self.main.values, own

    @property
    def may_loop(self) -> bool:
        """Whether it waits for a GPU at a line of a module, where a loop cannot be told from one wait.

        The variables of functions change in a loop; those of a module are not among what is read of a thread.
        """
        main = self.main
        return (
            main is not None and self.device_wait != "" and main.frames[_own(main.frames)].function == _MODULE
        )

    @property
    def waits_for_children(self) -> bool:
        """Whether it does nothing but wait for the processes that it has started, such as a shell."""
        return self.process.call in _WAITS_FOR_CHILDREN and not self.process.is_stopped


@dataclass(frozen=True)
class Place:
    """A place in which one or more processes are: `text` says where, `looks` which."""

    text: str
    looks: tuple[Look, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have a process here, each once."""
        return tuple(dict.fromkeys(look.task for look in self.looks))


def where(look: Look) -> str:
    """Return where a process is: what it has called, and the line of the user's code that did."""
    process, main = look.process, look.main
    stopped = "stopped by a signal " if process.is_stopped else ""
    call = f"{process.call} of {process.file}" if process.file else process.call
    if main is None:
        unknown = "its own code" if process.state == "R" else "a wait"
        return f"{stopped}in {call or process.wait or unknown} ({process.name})"
    number = _own(main.frames)
    frame = main.frames[number]
    stopped += "holds the GIL " if main.has_gil and process.state == "S" else ""
    inner = [each.function for each in main.frames[number + 1 :] if each.function not in _WRAPPERS]
    call = look.device_wait or call
    called = inner[0] if inner else f"{call} in {frame.function}" if call else frame.function
    reads = f", {call}" if inner and process.file.startswith("/") else ""
    return f"{stopped}in {called} ({_base(frame.file)}:{frame.line}){reads}"


def places(looks: Sequence[Look]) -> list[Place]:
    """Return the places of processes that do more than wait for their children, the fullest first.

    Two processes are in one place if their main threads have the same frames, whatever line of a library
    they are at, and if both are stopped, or neither is.
    """
    of_tasks: dict[str, list[Look]] = {}
    for look in looks:
        of_tasks.setdefault(look.task, []).append(look)
    kept = [look for own in of_tasks.values() for look in (_busy(own) or own[:1])]
    found: dict[object, list[Look]] = {}
    for look in kept:
        found.setdefault(_key(look), []).append(look)
    all_places = [Place(where(group[0]), tuple(group)) for group in found.values()]
    return sorted(all_places, key=lambda place: -len(place.tasks))


def odd_ones(found: Sequence[Place]) -> dict[str, list[Place]]:
    """Return the tasks that are not where most others are, each with its own places; at most a third of all.

    Of two tasks nobody knows which is wrong, unless a signal has stopped one of them.
    """
    tasks = dict.fromkeys(task for place in found for task in place.tasks)
    common = [place for place in found if len(place.tasks) > len(tasks) / 2]
    odd = [task for task in tasks if any(task not in place.tasks for place in common)]
    if len(odd) > max(1, len(tasks) // 3):
        odd = []
    odd = odd or [look.task for place in found for look in place.looks if look.process.is_stopped]
    if len(odd) == len(tasks):
        return {}
    return {task: [place for place in found if place not in common and task in place.tasks] for task in odd}


def at(looks: Sequence[Look]) -> str:
    """Return in one line where the processes of a task are, most of them first."""
    fullest = sorted(places(looks), key=lambda place: -len(place.looks))[:_MOST_PLACES]
    return "; ".join(
        place.text if len(place.looks) == 1 else f"{len(place.looks)} processes {place.text}"
        for place in fullest
    )


def odd_process(look: Look, looks: Sequence[Look]) -> Look | None:
    """Return the one process that is not where a process and its like are, such as one rank of a launcher."""
    alike = [
        replace(each, task=str(each.process.pid))
        for each in looks
        if (each.process.parent, each.process.name) == (look.process.parent, look.process.name)
    ]
    odd = odd_ones(places(alike))
    found = [each for each in alike if each.task in odd]
    return found[0] if len(found) == 1 and found[0].process.pid != look.process.pid else None


def lines(role_looks: Sequence[Look]) -> Iterator[str]:
    """Yield what people are told about the tasks of a role: its places, and the odd ones."""
    found = places(role_looks)
    for place in found:
        yield f"{_named(place)} {place.text}"
    reasons = dict.fromkeys(
        f"{look.task}: no stack of process {look.process.pid} ({look.process.name}): {look.stacks.why_not}"
        for place in found
        for look in place.looks
        if look.stacks.why_not and look.stacks.why_not != "no Python"
    )
    yield from reasons
    owners = {address: look.task for look in role_looks for address in look.addresses}
    silent = dict.fromkeys((owners.get(at, at), look.task) for look in role_looks for at in look.silent_peers)
    yield from (f"{peer} does not answer {task}" for peer, task in silent)
    for task, own in odd_ones(found).items():
        yield f"{task} is not where the others are: {'; '.join(place.text for place in own) or 'no process'}"


def stack_lines(look: Look) -> Iterator[str]:
    """Yield all that is known of one process, with the frames of its threads, the innermost last."""
    process = look.process
    waits = f", waits in {process.wait}" if process.wait else ""
    reads = f" of {process.file}" if process.file else ""
    call = f", {process.call}{reads}" if process.call else ""
    yield f"{look.task} process {process.pid} ({process.name}), state {process.state}{call}{waits}"
    if look.stacks.why_not:
        yield f"  no stack: {look.stacks.why_not}"
    for thread in look.stacks.threads:
        yield f"  thread {thread.tid}{', has the GIL' if thread.has_gil else ''}"
        for frame in thread.frames:
            yield f"    {frame.function} ({frame.file}:{frame.line})"


def _busy(looks: Sequence[Look]) -> list[Look]:
    return [look for look in looks if not look.waits_for_children]


def _key(look: Look) -> object:
    if look.main is None:
        process = look.process
        return process.is_stopped, process.name, process.call, process.file
    return look.process.is_stopped, tuple(
        (frame.function, _base(frame.file), None if _is_library(frame) else frame.line)
        for frame in look.main.frames
    )


def _own(frames: Sequence[Frame]) -> int:
    """Return the index of the innermost frame of the user's own code, or of the innermost one."""
    own = [number for number, frame in enumerate(frames) if not _is_library(frame)]
    return own[-1] if own else len(frames) - 1


def _is_library(frame: Frame) -> bool:
    return any(part in frame.file for part in _LIBRARIES)


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _named(place: Place) -> str:
    tasks = place.tasks
    many = "" if len(place.looks) == len(tasks) else f" ({len(place.looks)} processes)"
    if len(tasks) == 1:
        return f"{tasks[0]}{many} is"
    listed = ", ".join(tasks[:_MOST_NAMED]) + (", …" if len(tasks) > _MOST_NAMED else "")
    return f"{len(tasks)} tasks{many} ({listed}) are"
