"""``pai-runtime open``: opens the address of a service of a run, such as TensorBoard, in a browser."""

import argparse
import os
import threading
import webbrowser
from collections.abc import Iterator

from pai_runtime.cli.arguments import ON_HELP, RUN_HELP, add_on
from pai_runtime.cli.given_run import NotThere, given_run
from pai_runtime.runs.errors import CannotEnter
from pai_runtime.runs.names import LATEST
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.task.record import record
from pai_runtime.terminal.output import flush, say, write_lines
from pai_runtime.terminal.text import some

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    parser.add_argument(
        "service", nargs="?", metavar="SERVICE", help="a service, such as tensorboard (default: the only one)"
    )
    parser.add_argument("--print", action="store_true", help="print the address only, and open no browser")
    add_on(parser, ON_HELP)


def main(args: argparse.Namespace) -> int:
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
        return CANNOT_RUN
    except KeyboardInterrupt:
        return 0
    return 0


@record(frozen=True)
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
