"""``python -m pai_hang.within``: print where the processes of this task are, as JSON, for `stacks` elsewhere.

The task's supervisor starts it, as it does for ``pai-runtime exec``. What it prints has come through the task
when it is read, so it is `parsed` as what anybody may have written.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from pai_hang import stacks
from pai_hang.asking import ask
from pai_hang.places import Look
from pai_hang.processes import Process, addresses, is_copy, is_service, silent_peers, tree
from pai_hang.stacks import Stacks

ARGV = ("sh", "-c", 'exec "$PAI_RUNTIME_PYTHON" -I -m pai_hang.within')
"""What runs this module in a task."""

_MOST_SECONDS = 100


def main() -> None:
    """Print the processes below the supervisor."""
    signal.alarm(_MOST_SECONDS)  # nobody waits for longer
    supervisor = os.getppid()
    sys.stdout.write(ask(supervisor) or told(supervisor, stacks.take))


def told(supervisor: int, take: Callable[[Sequence[Process]], Mapping[int, Stacks]]) -> str:
    """Return what is printed of the processes below a supervisor, whose stacks `take` reads."""
    return json.dumps([_document(look) for look in look_below({"": supervisor}, take)])


def look_below(
    supervisors: Mapping[str, int],
    take: Callable[[Sequence[Process]], Mapping[int, Stacks]] = stacks.take,
) -> list[Look]:
    """Return all processes below the supervisors of tasks but their services', with their stacks."""
    found = [
        (task, process)
        for task, supervisor in supervisors.items()
        for process in tree(supervisor)
        if not is_copy(process.pid, supervisor) and not is_service(process.pid)
    ]
    read = take([process for _, process in found])
    return [
        Look(task, process, read[process.pid], addresses(process.pid), silent_peers(process.pid))
        for task, process in found
    ]


def parsed(task: str, document: Any) -> list[Look]:
    """Return the processes that a task has told of. Raises `ValueError` if it is not what `main` prints."""
    try:
        return [_look(task, *each) for each in document]
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"what it tells of its processes is invalid: {error}") from None


def _document(look: Look) -> list[Any]:
    threads = [astuple(thread) for thread in look.stacks.threads]
    return [astuple(look.process), look.stacks.why_not, threads, [*look.addresses], look.silent_peers]


def _look(task: str, process: Any, why_not: Any, threads: Any, addresses: Any, silent: Any) -> Look:
    return Look(
        task,
        _process(*process),
        Stacks(tuple(map(stacks.parsed_thread, threads)), stacks.cut(why_not)),
        frozenset(map(stacks.cut, addresses)),
        tuple(map(stacks.cut, silent)),
    )


def _process(pid: Any, parent: Any, name: Any, state: Any, cpu: Any, io: Any, *texts: Any) -> Process:
    call, file, wait = map(stacks.cut, texts)
    read = None if io is None else int(io)
    return Process(
        int(pid),
        int(parent),
        stacks.cut(name),
        stacks.cut(state)[:1] or "?",
        float(cpu),
        read,
        call,
        file,
        wait,
    )


if __name__ == "__main__":
    main()
