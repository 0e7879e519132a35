"""``pai-runtime marketplace add``: adds a source to the user's ``marketplace.yaml``."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pai_definitions.configuration import MACHINE_CONFIGURATION, read_sources, sources_in
from pai_definitions.job_library import opened_sources
from pai_definitions.marketplace.own_configuration import (
    configuration_text,
    own_configuration,
    write_configuration,
)
from pai_definitions.marketplace.source_entry import Entry, entry_lines, with_source
from pai_definitions.model import Listed
from pai_definitions.reference import BadReference, parse_reference
from pai_document.amounts import counted
from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Problem, Problems, as_warnings
from pai_document.url import shown_text
from pai_document.value import Value
from pai_runtime.command.jobs import Host, given_host
from pai_runtime.command.output import report, report_problems, write_lines
from pai_runtime.definitions import NoDefinition
from pai_task.exit_codes import INVALID

_SCHEMES = ("http://", "https://")
_SUFFIXES = (".yaml", ".yml")
_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9_-]+")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 1 if the source is a duplicate or invalid.

    Raises `NoDefinition` if it does not exist.
    """
    entry = _entry(args)
    with own_configuration() as path:
        return _add(entry, path, given_host(args.policy))


def _add(entry: Entry, path: Path, host: Host) -> int:
    problems = Problems()
    try:
        new = with_source(configuration_text(path), str(path), entry)
        if new is None:
            report(f"{path}: cannot be changed by a program; add this to its sources:", *entry_lines(entry))
            return INVALID
        listed = _listed(parse_document(new, str(path)), host, problems)
    except InvalidInput as error:
        report_problems(error.problems)
        return INVALID
    report_problems(list(as_warnings(problems.in_order)))
    write_configuration(path, new)
    amount = counted(len(listed), "definition", "definitions")
    write_lines([f"added the source {entry['name']}, with {amount}, to {path}"])
    return 0


def _listed(root: Value, host: Host, problems: Problems) -> Sequence[Listed]:
    """Return what the last source of a file lists. Raises if it is not a source, or a duplicate."""
    *others, added = sources_in(root)
    configured = {each.place: each for each in (*others, *read_sources([MACHINE_CONFIGURATION]))}
    if same := configured.get(added.place):
        message = f"the source '{same.name}' at {same.value.position} is the same"
        raise InvalidInput([Problem("duplicate-source", message)])
    if same := {each.name: each for each in configured.values()}.get(added.name):
        message = (
            f"the name '{added.name}' is that of the source at {same.value.position}; choose one with --name"
        )
        raise InvalidInput([Problem("duplicate-name", message)])
    opened, _ = opened_sources([added], {}, host.location_refusal)
    (source,) = (each for each in opened if each.name == added.name)
    if reason := host.location_refusal(source.location):
        raise NoDefinition("definition-refused", reason)
    listed = source.list(problems)
    if not listed:
        problems.check()
    return listed


def _entry(args: argparse.Namespace) -> Entry:
    """Return the entry to be added. Raises `NoDefinition` if the location is invalid."""
    kind, place = _place(args.location)
    name = args.name or _name(place)
    entry: dict[str, object] = {"name": name, kind: place}
    if args.token_file is not None:
        entry["token"] = {"file": str(args.token_file.absolute())}
    return entry


def _place(location: str) -> tuple[str, str]:
    """Return the kind of source at a location, and the location as it is written."""
    try:
        is_url = location.lower().startswith(_SCHEMES) and parse_reference(location).kind == "url"
    except BadReference as error:
        raise NoDefinition("wrong-reference", f"{shown_text(location)}: {error}") from None
    if is_url:
        is_file = urlsplit(location).path.endswith(_SUFFIXES)
        return ("url" if is_file else "marketplace"), location
    path = Path(location).absolute()
    if path.is_dir():
        return "folder", str(path)
    if path.is_file():
        return "file", str(path)
    raise NoDefinition(
        "no-such-source",
        f"{shown_text(location)} is neither a directory, nor a file, nor an http or https URL",
    )


def _name(place: str) -> str:
    """Derive a name from the last part of a path, or the host of a URL."""
    text = urlsplit(place).hostname if "://" in place else Path(place).name
    return _NOT_IN_NAMES.sub("-", (text or "").removesuffix(".yaml").removesuffix(".yml")).strip("-")[:100]
