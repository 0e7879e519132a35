"""``pai-runtime stacks``: where the tasks of a run are, by the stacks of their processes."""

import argparse
from collections.abc import Sequence
from typing import Any

from pai_hang import places, stacks
from pai_hang.places import Look
from pai_hang.processes import addresses, is_copy, silent_peers, tree
from pai_runtime.plugin import Output, RunningTask

NOTHING = 1
"""The exit status if no process was found."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", default="latest", metavar="RUN", help="a run (default: latest)")
    parser.add_argument(
        "task", nargs="?", metavar="TASK", help="a task or role of it, such as worker/0: with whole stacks"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0, or 1 if no process was found."""
    looks = look_at(output.running_tasks(args.run, args.task))
    if args.json:
        output.write_json([_document(look) for look in looks])
    elif args.task is None:
        output.write_lines(summary(looks))
    else:
        output.write_lines(line for look in looks for line in places.stack_lines(look))
    return 0 if looks else NOTHING


def look_at(tasks: Sequence[RunningTask]) -> list[Look]:
    """Return all processes of some tasks with their stacks."""
    found = [
        (task.name, process)
        for task in tasks
        for process in tree(task.supervisor)
        if not is_copy(process.pid, task.supervisor)
    ]
    read = stacks.take([process for _, process in found])
    return [
        Look(task, process, read[process.pid], addresses(process.pid), silent_peers(process.pid))
        for task, process in found
    ]


def summary(looks: Sequence[Look]) -> list[str]:
    """Return what people are told about tasks, role by role."""
    roles: dict[str, list[Look]] = {}
    for look in looks:
        roles.setdefault(look.task.rpartition("/")[0], []).append(look)
    return [line for own in roles.values() for line in places.lines(own)]


def _document(look: Look) -> dict[str, Any]:
    process = look.process
    return {
        "task": look.task,
        "pid": process.pid,
        "name": process.name,
        "state": process.state,
        "systemCall": process.call,
        "file": process.file,
        "where": places.where(look),
        "noStack": look.stacks.why_not,
        "threads": [
            {
                "tid": thread.tid,
                "hasGil": thread.has_gil,
                "frames": [vars(frame) for frame in thread.frames],
            }
            for thread in look.stacks.threads
        ],
    }
