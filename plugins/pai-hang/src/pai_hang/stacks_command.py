"""``pai-runtime stacks``: where the tasks of a run are, by the stacks of their processes."""

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pai_hang import places, within
from pai_hang.places import Look
from pai_hang.stacks import NOT_PERMITTED
from pai_runtime.command.arguments import ON_HELP, add_json, add_on
from pai_runtime.plugin import Output, RunningTask, UserError

NOTHING = 1
"""The exit status if no process was found."""

_AT_ONCE = 8
"""Tasks of a cluster that are entered at the same time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", default="latest", metavar="RUN", help="a run (default: latest)")
    parser.add_argument(
        "task", nargs="?", metavar="TASK", help="a task or role of it, such as worker/0: with whole stacks"
    )
    add_on(parser, ON_HELP)
    add_json(parser)


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0, or 1 if no process was found."""
    looks, untold = look_at(output.running_tasks(args.run, args.task, args.on))
    output.report(*untold)
    if args.json:
        output.write_json([_document(look) for look in looks])
    elif args.task is None:
        output.write_lines(summary(looks))
    else:
        output.write_lines(line for look in looks for line in places.stack_lines(look))
    return 0 if looks else NOTHING


def look_at(tasks: Sequence[RunningTask]) -> tuple[list[Look], list[str]]:
    """Return all processes of some tasks with their stacks, and why those of others are not known."""
    here = {task.name: task.supervisor for task in tasks if task.supervisor is not None}
    looks = within.look_below(here)
    refused = {look.task for look in looks if look.stacks.why_not.startswith(NOT_PERMITTED)}
    asked = [task for task in tasks if task.supervisor is None or task.name in refused]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(_asked, asked))
    told = {
        task.name: answer for task, answer in zip(asked, answers, strict=True) if isinstance(answer, list)
    }
    looks = [look for look in looks if look.task not in told]
    looks += [look for answer in told.values() for look in answer]
    return looks, [answer for answer in answers if isinstance(answer, str)]


def _asked(task: RunningTask) -> list[Look] | str:
    """Return what a task that runs elsewhere tells of its processes, or why it does not."""
    try:
        return within.parsed(task.name, task.ask(within.ARGV))
    except (UserError, ValueError) as error:
        return f"{task.name}: {error}"


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
