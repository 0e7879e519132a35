"""``pai-runtime cp``: copies a file or directory of a task to this machine."""

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pai_runs.copying import copy_files, copy_to
from pai_runtime.command.arguments import ON_HELP, RUN_HELP, add_on
from pai_runtime.command.output import counted, say, size_text, write_bytes
from pai_runtime.command.runs import CannotCopy, NotThere, TaskFile, given_tasks
from pai_runtime.plugin import Output

_CANNOT_RUN: Final = 2
_LIMIT = "10G"
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_MOST_NAMED = 3
_STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    parser.add_argument(
        "source",
        metavar="TASK:PATH",
        help="a task, such as worker/0, or the only one of a role, and a path there, relative to the task's"
        " working directory",
    )
    parser.add_argument(
        "target",
        metavar="DEST",
        help="a directory to copy into, or the path that the copy is to have; - for standard output",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that exists; never a directory")
    parser.add_argument(
        "--limit",
        type=_size,
        default=_LIMIT,
        metavar="SIZE",
        help=f"copy nothing that is larger in all, such as 500M (default: {_LIMIT})",
    )
    add_on(parser, ON_HELP)


def main(args: argparse.Namespace, _: Output) -> int:
    """Return exit status 0, or 2 if nothing could be copied."""
    task_name, _, path = args.source.partition(":")
    if not task_name or not path:
        say(f"expected TASK:PATH, such as worker/0:model.pt, found {args.source!r}")
        return _CANNOT_RUN
    try:
        words = [task_name] if args.run is None else [args.run, task_name]
        given = given_tasks("cp", words, args.on)
        _copy(given.reader.files(given.only(), path), path, args)
    except NotThere as error:
        say(f"{error}")
        return _CANNOT_RUN
    except CannotCopy as error:
        say(f"cannot copy {args.source}: {error}")
        return _CANNOT_RUN
    return 0


def _copy(files: Iterator[TaskFile], path: str, args: argparse.Namespace) -> None:
    if args.target == _STDOUT:
        if os.isatty(1):
            raise CannotCopy("files of tasks are not written to a terminal; use a pipe")
        copy_to(files, write_bytes, args.limit)
        return
    target = _target(path, Path(args.target))
    copied = copy_files(files, target, args.limit, replace=args.force)
    if left_out := copied.left_out:
        named = ", ".join(left_out[:_MOST_NAMED])
        some = counted(len(left_out), "link or special file is", "links and special files are")
        say(f"{some} left out: {named}{', …' if len(left_out) > _MOST_NAMED else ''}")
    say(f"{target}: {size_text(copied.size)}")


def _target(path: str, given: Path) -> Path:
    """Return the path of the copy: in a directory that is there, with its own name, or the one given."""
    if not given.is_dir():
        return given
    name = path.rstrip("/").rpartition("/")[2]
    if name in ("", ".", ".."):
        raise CannotCopy(f"{given} exists, and {path} has no name; name the directory that is to be made")
    return given / name


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d{1,15})([KMGT]?)(?:i?B)?", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a size, such as 500M or 20G, found {text!r}")
    return int(match[1]) << _UNITS[match[2]]
