"""``pai-runtime convert``: a job of version 1, or one as OpenPAI shows it, as a job file of version 2."""

import argparse
from pathlib import Path
from typing import Final

from pai_job_v1.check import is_version_1
from pai_job_v1.conversion import converted
from pai_job_v1.portal_config import is_shown_config, job_of_config
from pai_runtime.plugin import Output
from pai_runtime.plugin.job_format import InvalidInput, Problems, problem_lines, read_document, yaml_lines

INVALID: Final = 1
CANNOT_RUN: Final = 2
"""Exit statuses, as of other commands: the job is invalid; the command cannot be executed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "job",
        type=_path,
        metavar="JOB",
        help="a job of version 1 (JSON), or with --from-portal one that OpenPAI shows; - is standard input",
    )
    parser.add_argument(
        "--from-portal",
        action="store_true",
        help="the job is the configuration that OpenPAI's portal or REST server shows, with hidden secrets",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a new file to write it to, instead of standard output"
    )


def _path(text: str) -> Path:
    return Path("/dev/stdin" if text == "-" else text)


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0; 1 if the job is invalid; 2 if it is not such a job, or cannot be written."""
    problems = Problems()
    try:
        root = read_document(args.job)
        if not (is_shown_config if args.from_portal else is_version_1)(root):
            what = (
                "a job of version 2, which has protocolVersion and taskRoles"
                if args.from_portal
                else "a job of version 1, which has jobName, image and a list of taskRoles"
            )
            output.report(f"pai-runtime: {args.job} is not {what}")
            return CANNOT_RUN
        made = (job_of_config if args.from_portal else converted)(root, problems)
    except InvalidInput as error:
        output.report(*problem_lines(error.problems))
        return INVALID
    of_job = "as OpenPAI showed it" if args.from_portal else "a job of version 1"
    lines = [f"# Converted from {args.job.name}, {of_job}.", *yaml_lines(made.root.data, made.comments)]
    if args.out is None:
        if args.from_portal:
            output.report(*problem_lines(problems.in_order))
        output.write_lines(lines)
        return 0
    try:
        with args.out.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        output.report(f"pai-runtime: cannot write {args.out}: {error.strerror}")
        return CANNOT_RUN
    output.report(*problem_lines(problems.in_order))
    return 0
