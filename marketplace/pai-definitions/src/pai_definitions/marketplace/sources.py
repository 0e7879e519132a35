"""The configured sources of definitions, under the policies in force."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pai_definitions.configuration import configurations, read_sources
from pai_definitions.job_library import opened_sources
from pai_definitions.library import SourceLibrary
from pai_definitions.model import DefinitionSource, Library
from pai_definitions.reference import BadReference, Reference, parse_reference, published
from pai_document.problems import Position, near_miss
from pai_runtime.command.jobs import Host, given_host
from pai_runtime.definitions import Definition, NoDefinition

_HERE = Position("the command line")


class Sources:
    """All sources of definitions, in the order in which they are asked."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.all, self._web = opened_sources(read_sources(configurations()), {}, host.location_refusal)

    def chosen(self, name: str | None) -> Sequence[DefinitionSource]:
        """Return all sources, or the one with this name. Raises `NoDefinition` if there is none."""
        found = [source for source in self.all if name in (None, source.name)]
        if not found:
            names = [source.name for source in self.all]
            meant = near_miss(name or "", names)
            message = f"no source is named '{name}'; there are {', '.join(names)}"
            raise NoDefinition("no-such-source", f"{message}; did you mean {meant}?" if meant else message)
        return found

    def library(self, first: Sequence[DefinitionSource] = ()) -> Library:
        """Return a library that searches `first`, then as for a job in the current directory."""
        locations = {source.location for source in first}

        def refusal(location: str) -> str | None:
            return None if location in locations else self.host.location_refusal(location)

        return SourceLibrary([*first, *self.all], self._web, refusal, Path.cwd() / "job.yaml")

    def find(self, reference: Reference, name: str | None = None) -> Definition:
        """Return the definition that a reference means, in all sources or in one.

        Raises as `Library.find`.
        """
        library = SourceLibrary(
            self.chosen(name), self._web, self.host.location_refusal, Path.cwd() / "job.yaml"
        )
        try:
            return library.find(reference, None, _HERE)
        except NoDefinition as error:
            if meant := near_miss(reference.target, error.known):
                raise NoDefinition(error.code, f"{error}; did you mean {meant}?") from None
            raise


def given_sources(args: argparse.Namespace) -> Sources:
    """Return the sources for a command line."""
    return Sources(given_host(args.policy))


def given_reference(text: str) -> Reference:
    """Parse the reference of a command line; a bare name means one in any source. Raises `NoDefinition`."""
    try:
        reference = parse_reference(text)
    except BadReference as error:
        raise NoDefinition("wrong-reference", f"{text}: {error}, or a name") from None
    if reference.kind == "plain":
        return published(reference)
    return reference
