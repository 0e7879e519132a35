"""``pai-runtime schema``: JSON Schema of the files that people write, for editors."""

import argparse

from pai_authoring.job_schema import job_schema
from pai_runtime.command.jobs import given_host
from pai_runtime.command.output import write_json
from pai_runtime.command.schemas import FILES, file_schema
from pai_runtime.plugin import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", choices=FILES, metavar="FILE", help=f"the kind of file: {', '.join(FILES)}")


def main(args: argparse.Namespace, _: Output) -> int:
    """Return exit status 0."""
    schema = file_schema(args.file)
    write_json(job_schema(schema, given_host(None).usable) if args.file == "job" else schema)
    return 0
