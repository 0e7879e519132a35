"""``pai-runtime report``: what became of a run, as a page for a browser, as JSON, or as metrics."""

import argparse
import json
import os
from pathlib import Path
from typing import Final

from pai_report.document import document
from pai_report.gathering import gather
from pai_report.metrics import metric_lines
from pai_runtime.command.arguments import ON_HELP, RUN_HELP, add_on
from pai_runtime.command.output import say, write_json, write_lines
from pai_runtime.command.runs import LATEST, Folder, NotThere, given_run, summarise
from pai_runtime.plugin import Output

_CANNOT_RUN: Final = 2
_PAGE: Final = "report.html"
_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644
"""Modes of the page, which has logs in it, and of what other programs collect."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", default=LATEST, metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"write it to this file (default: {_PAGE} in the directory of the run; of a run on a cluster, "
        "in the working directory; JSON and metrics go to standard output)",
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON")
    forms.add_argument(
        "--prometheus", action="store_true", help="write metrics for the textfile collector of node-exporter"
    )
    add_on(parser, ON_HELP)


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0, or 2 if there is no such run, or the report cannot be written."""
    try:
        reader, run = given_run("report", args.run, args.on)
    except NotThere as error:
        say(f"{error}")
        return _CANNOT_RUN
    path = args.out
    if args.prometheus:
        lines = list(metric_lines(reader, run, summarise(reader, run).usage))
        text = "".join(f"{line}\n" for line in lines)
        if path is None:
            write_lines(lines)
    elif args.json:
        found = document(gather(reader, run, output))
        text = f"{json.dumps(found, indent=2)}\n"
        if path is None:
            write_json(found)
    else:
        from pai_report.page import page  # noqa: PLC0415 - Jinja2 takes long to import

        text = page(gather(reader, run, output))
        path = path or (reader.folder or Path()) / _PAGE
    return 0 if path is None else _written(path, text, _PUBLIC if args.prometheus or args.json else _PRIVATE)


def _written(path: Path, text: str, mode: int) -> int:
    """Write a report atomically, and return the exit status."""
    try:
        with Folder.at(path.parent) as folder:
            folder.write(path.name, text, mode, sync=False)
    except OSError as error:
        say(f"cannot write {path}: {error.strerror}")
        return _CANNOT_RUN
    write_lines([os.path.relpath(path)])
    return 0
