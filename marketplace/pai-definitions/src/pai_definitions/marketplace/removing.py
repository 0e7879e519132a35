"""``pai-runtime marketplace remove``: removes a source from the user's ``marketplace.yaml``."""

import argparse
from pathlib import Path

from pai_definitions.configuration import MACHINE_CONFIGURATION, read_sources, sources_in
from pai_definitions.marketplace.own_configuration import (
    configuration_text,
    own_configuration,
    write_configuration,
)
from pai_definitions.marketplace.source_entry import without_source
from pai_document.document import parse_document
from pai_document.problems import InvalidInput, listed, near_miss
from pai_runtime.command.output import report, report_problems, write_lines
from pai_runtime.definitions import NoDefinition
from pai_task.exit_codes import INVALID


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 1 if the configuration is invalid, or a person has to change it.

    Raises `NoDefinition` if it has no such source.
    """
    with own_configuration() as path:
        try:
            return _remove(args.name, path)
        except InvalidInput as error:
            report_problems(error.problems)
            return INVALID


def _remove(name: str, path: Path) -> int:
    text = configuration_text(path)
    sources = sources_in(parse_document(text, str(path))) if text else ()
    found = {source.name: index for index, source in enumerate(sources)}
    if name not in found:
        raise _no_such(name, path, list(found))
    new = without_source(text, str(path), found[name])
    if new is None:
        position = sources[found[name]].value.position
        report(f"{path}: cannot be changed by a program; remove the source '{name}' at {position}")
        return INVALID
    write_configuration(path, new)
    write_lines([f"removed the source {name} from {path}"])
    return 0


def _no_such(name: str, path: Path, own: list[str]) -> NoDefinition:
    for source in read_sources([MACHINE_CONFIGURATION]):
        if source.name == name:
            message = f"the source '{name}' is this machine's, for all of its users: {source.value.position}"
            return NoDefinition("no-such-source", message)
    meant = near_miss(name, own)
    hint = f"; did you mean {meant}?" if meant else f"; it has {listed(own)}" if own else ""
    return NoDefinition("no-such-source", f"{path} has no source named '{name}'{hint}")
