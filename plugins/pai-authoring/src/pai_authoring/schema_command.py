"""``pai-runtime schema``: JSON Schema of the files that people write, for editors."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from pai_authoring.engines_schema import engines_schema
from pai_authoring.job_schema import job_schema
from pai_runtime.command.jobs import Plugin, given_host
from pai_runtime.command.output import write_json
from pai_runtime.command.schemas import FILES, BadProfileSchema, file_schema, profile_schema
from pai_runtime.plugin import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", choices=FILES, metavar="FILE", help=f"the kind of file: {', '.join(FILES)}")


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0."""
    schema = file_schema(args.file)
    if args.file == "job":
        schema = job_schema(schema, given_host(None).usable)
    elif args.file == "engines":
        schema = engines_schema(schema, _engines(output))
    write_json(schema)
    return 0


def _engines(output: Output) -> Iterator[tuple[Plugin, Mapping[str, Any]]]:
    """Yield the engines that may be used and have a schema of their profiles; report what is wrong."""
    for plugin in given_host(None).usable:
        try:
            schema = profile_schema(plugin) if plugin.manifest.engine else None
        except BadProfileSchema as error:
            output.report(f"warning: {error}")
        else:
            if schema is not None:
                yield plugin, schema
