"""``pai-runtime open``: opens the address of a service of a run, such as TensorBoard, in a browser."""

import argparse
import os
import threading
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pai_runtime.command.arguments import ON_HELP, RUN_HELP, add_on
from pai_runtime.command.output import flush, say, some, write_lines
from pai_runtime.command.runs import LATEST, CannotEnter, NotThere, Run, RunReader, RunTask, given_run
from pai_runtime.plugin import Output

_CANNOT_RUN: Final = 2
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    parser.add_argument(
        "service", nargs="?", metavar="SERVICE", help="a service, such as tensorboard (default: the only one)"
    )
    parser.add_argument("--print", action="store_true", help="print the address only, and open no browser")
    add_on(parser, ON_HELP)


def main(args: argparse.Namespace, _: Output) -> int:
    """Return exit status 0, or 2 if there is no such run or service, or it cannot be reached."""
    try:
        found = _service(args)
        with found.reader.connected(found.task, found.address) as url:
            write_lines([url])
            flush()
            if not args.print and os.isatty(1) and any(map(os.environ.get, _DISPLAYS)):
                webbrowser.open(url)
            if url != found.address:
                say(f"forwarding to {found.name} of {found.task.name} until Ctrl-C")
                threading.Event().wait()
    except (NotThere, CannotEnter) as error:
        say(f"{error}")
        return _CANNOT_RUN
    except KeyboardInterrupt:
        return 0
    return 0


@dataclass(frozen=True)
class _Service:
    reader: RunReader
    task: RunTask
    name: str
    address: str


def _service(args: argparse.Namespace) -> _Service:
    """Return the service that is meant, of the first task that has it. Raises `NotThere`."""
    wanted = args.service
    try:
        reader, run = given_run("open", args.run or LATEST, args.on)
    except NotThere:
        if args.run is None or wanted is not None:
            raise
        wanted = args.run
        reader, run = given_run("open", LATEST, args.on)
    services = list(_services(reader, run))
    meant = [each for each in services if wanted in (None, each.name)]
    if meant and len({each.name for each in meant}) == 1:
        return meant[0]
    known = some([f"{each.name} of {each.task.name}" for each in services]) or "none"
    missing = f"no service '{wanted}' is ready" if wanted else "expected the name of a service"
    raise NotThere(f"{missing} in {reader.named}; known: {known}")


def _services(reader: RunReader, run: Run) -> Iterator[_Service]:
    for task in run.tasks:
        if task.state == "running" and not run.lost:
            for name, address in reader.services(task).items():
                yield _Service(reader, task, name, address)
