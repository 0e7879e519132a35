"""``pai-runtime convert``: a job of version 1 as one of version 2."""

import argparse
from pathlib import Path

from pai_runtime.cli import CANNOT_RUN, INVALID
from pai_runtime.document.document import read_document
from pai_runtime.document.problems import InvalidInput, Problems
from pai_runtime.legacy.check import is_version_1
from pai_runtime.legacy.conversion import converted
from pai_runtime.legacy.yaml_text import yaml_lines
from pai_runtime.terminal.output import report_problems, say, write_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("job", type=Path, metavar="JOB", help="a job of version 1 (JSON)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a new file to write it to, instead of standard output"
    )


def main(args: argparse.Namespace) -> int:
    """Return exit status 0; 1 if the job is invalid; 2 if it is not of version 1, or cannot be written."""
    problems = Problems()
    try:
        root = read_document(args.job)
        if not is_version_1(root.data):
            say(f"{args.job} is not a job of version 1, which has jobName, image and a list of taskRoles")
            return CANNOT_RUN
        made = converted(root, problems)
    except InvalidInput as error:
        report_problems(error.problems)
        return INVALID
    lines = [
        f"# Converted from {args.job.name}, a job of version 1.",
        *yaml_lines(made.root.data, made.comments),
    ]
    if args.out is None:
        write_lines(lines)
        return 0
    try:
        with args.out.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        say(f"cannot write {args.out}: {error.strerror}")
        return CANNOT_RUN
    report_problems(problems.in_order)
    return 0
