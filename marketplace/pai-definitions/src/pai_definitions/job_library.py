"""The definitions of one job, as configured, under the policies in force and the job's lock file."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pai_definitions.cache import Cache
from pai_definitions.cached_fetching import CachedFetcher
from pai_definitions.configuration import (
    MACHINE_CONFIGURATION,
    SourceSettings,
    configurations,
    read_sources,
)
from pai_definitions.library import SourceLibrary
from pai_definitions.lock import Key, Lock, Pin, existing_lock, lock_path, lock_text, read_lock
from pai_definitions.locked import LockedLibrary, RecordingLibrary
from pai_definitions.model import DefinitionSource, Library
from pai_definitions.reference import BadReference, parse_reference
from pai_definitions.rendering import rendered
from pai_definitions.sources import open_sources
from pai_definitions.variables import completed
from pai_definitions.web import Web
from pai_document.document import MAX_BYTES
from pai_document.problems import Position
from pai_document.value import Value
from pai_runtime.command.output import say
from pai_runtime.definitions import RESOLVED, Definition, DefinitionFile, NoDefinition
from pai_task.record import replace

if TYPE_CHECKING:
    from pai_definitions.fetching import Fetcher

Refusal = Callable[[str], str | None]
"""A function that returns why nothing may come from a location; None if it may."""


class JobLibrary:
    """The definitions in a library as the runtime uses them; a `pai_runtime.definitions.Definitions`."""

    completed = staticmethod(completed)
    rendered = staticmethod(rendered)

    def __init__(self, library: Library) -> None:
        self._found = RecordingLibrary(library)

    def find(self, name: str, above: DefinitionFile | None, required_by: Position) -> Definition:
        """Return the definition that a reference means; see `Definitions.find`."""
        try:
            reference = parse_reference(name)
        except BadReference as error:
            raise NoDefinition("wrong-reference", str(error)) from None
        return self._found.find(reference, above, required_by)

    @property
    def pins(self) -> Mapping[Key, Pin]:
        """The pins for the lock file of the job, from what was found."""
        return self._found.shared

    def lock_text(self) -> str:
        """Return the lock file of the job, which carries what others cannot fetch."""
        text = lock_text(self.pins.values(), self._found.carried)
        if len(text.encode()) <= MAX_BYTES:
            return text
        say("the lock file does not carry the definitions, which are too large: others need the same sources")
        return lock_text(self.pins.values())

    def resolved(self) -> str:
        """Return a lock file that contains everything that was found; empty if nothing was."""
        return self._found.resolved()


def open_beside(
    job: Path,
    secrets: Mapping[str, Value],
    refusal: Refusal,
    lock: Lock | None = None,
    *,
    complete: bool = True,
) -> JobLibrary:
    """Open the definitions of a job file.

    The lock file beside it applies, or `lock` in its place. What is not locked is refused if the lock is
    `complete`. Raises `InvalidInput`.
    """
    sources, web = opened_sources(read_sources(configurations()), secrets, refusal)
    found = SourceLibrary(sources, web, refusal, job)
    lock = lock or existing_lock(lock_path(job))
    if lock is None:
        return JobLibrary(found)
    command = f"pai-runtime lock {shlex.quote(str(job))}"
    return JobLibrary(LockedLibrary(found, lock, Cache(), command, complete=complete))


def open_in_pod(lock: Path | None, secrets: Mapping[str, Value], refusal: Refusal) -> JobLibrary:
    """Open the definitions of a pod's job: those that it was given, and those of the runtime image.

    They use no network: a pod must not wait for one to start. A lock file that was handed to the pod applies
    like one beside a job file.
    """
    from pai_definitions.fetching import Fetcher  # noqa: PLC0415 - as below

    sources, web = open_sources(read_sources([MACHINE_CONFIGURATION]), secrets, Fetcher(offline=True))
    library = SourceLibrary(sources, web, refusal)
    if lock is None:
        return JobLibrary(library)
    command = f"pai-runtime lock JOB --with-content {RESOLVED}"
    trusted = replace(read_lock(lock), is_trusted=True)
    return JobLibrary(LockedLibrary(library, trusted, Cache(), command))


def opened_sources(
    settings: Sequence[SourceSettings], secrets: Mapping[str, Value], refusal: Refusal
) -> tuple[Sequence[DefinitionSource], Web]:
    """Return these sources with the embedded one, and the web client; `secrets` may be tokens of servers.

    No server is allowed to redirect to what is refused.
    """

    def open_fetcher() -> "Fetcher":
        from pai_definitions.fetching import Fetcher  # noqa: PLC0415 - few jobs ask a server

        return Fetcher(refusal=refusal)

    cache = Cache()
    return open_sources(settings, secrets, CachedFetcher(open_fetcher, cache, say), cache.pinned)
