"""Libraries that apply a lock file, and that record what a lock file is made of."""

import os
from collections.abc import Iterable, Mapping

from pai_definitions.cache import Cache
from pai_definitions.library import SourceLibrary
from pai_definitions.lock import Key, Lock, Pin, key_of, lock_text
from pai_definitions.model import Library
from pai_definitions.origins import shared_origin
from pai_definitions.reference import Reference, published
from pai_document.problems import Position
from pai_runtime.definitions import Definition, DefinitionFile, NoDefinition
from pai_runtime.host.locations import FILE, canonical, is_url, named
from pai_task.record import replace


class LockedLibrary:
    """A library that returns exactly the locked bytes for each locked reference.

    Other references are refused if the lock is `complete`; files beside the job are the job's own, and come
    with it. `command` makes the lock file, for messages.
    """

    def __init__(
        self, library: SourceLibrary, lock: Lock, cache: Cache, command: str, *, complete: bool = True
    ) -> None:
        self._library = library
        self._lock = lock
        self._cache = cache
        self._command = command
        self._complete = complete
        self._files: dict[Key, DefinitionFile] = {}

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        """Return the definition that a reference means; see `Library`."""
        if reference.kind == "plain":
            if above and (beside := self._library.beside(reference, above, required_by)):
                return beside
            reference = published(reference)
        key = key_of(reference, above)
        if pin := self._lock.pins.get(key):
            if key not in self._files:
                may_be_own = _may_be_own(reference, above)
                self._files[key] = self._file(pin, _asked(pin, reference), may_be_own=may_be_own)
            return self._library.meant(reference, self._files[key], required_by)
        if self._complete and not _comes_with_job(reference, above):
            raise NoDefinition(
                "not-locked",
                f"it is not in the lock file {self._lock.file}; to add it, run: {self._command}",
                (reference for reference, _ in self._lock.pins),
            )
        definition = self._library.find(reference, above, required_by)
        keep_file(self._cache, definition.file)
        return definition

    def _file(self, pin: Pin, asked: str, *, may_be_own: bool) -> DefinitionFile:
        content = self._lock.contents.get(pin.digest)
        if content is not None and self._lock.is_trusted:
            location = pin.location or pin.origin
            return DefinitionFile(pin.origin, pin.origin, location, content, own=pin.own and may_be_own)
        if (kept := kept_file(self._cache, pin)) is not None:
            return kept
        try:
            file = self._fetched(pin, asked)
        except NoDefinition:
            # What it carries came from the lock file, for a policy, and not from where the file says.
            location = os.path.realpath(self._lock.file)
            if content is None or is_url(pin.origin) or not self._library.permits(location):
                raise
            return DefinitionFile(pin.origin, pin.origin, location, content)
        keep_file(self._cache, file)
        return file

    def _fetched(self, pin: Pin, asked: str) -> DefinitionFile:
        """Return the locked bytes from their origin. Raises `NoDefinition`."""
        try:
            file = self._library.file(asked, pin.digest)
        except NoDefinition as error:
            if error.code != "no-such-definition" or is_url(pin.origin):
                raise
            message = (
                f"{error}; {self._lock.file} does not carry it: whoever has it has to run: {self._command}"
            )
            raise NoDefinition(error.code, message) from None
        if file.digest != pin.digest:
            raise NoDefinition(
                "wrong-digest",
                f"{file.shown} has changed: {self._lock.file} expects sha256:{pin.digest}, found"
                f" sha256:{file.digest}; to accept the change, run:"
                f" {self._command} --update {pin.name or pin.reference}",
            )
        return file


class RecordingLibrary:
    """A library that records what references meant."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._found: dict[Key, Definition] = {}

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        """Return the definition that a reference means; see `Library`."""
        definition = self._library.find(reference, above, required_by)
        if reference.kind != "plain":
            self._record(key_of(reference, above), definition)
        elif above is None or shared_origin(definition.file.origin) != shared_origin(above.origin):
            self._record(key_of(published(reference), above), definition)
        return definition

    def _record(self, key: Key, definition: Definition) -> None:
        first = self._found.setdefault(key, definition)
        if first.file.digest != definition.file.digest:
            reference, within = key
            message = (
                f"a lock file could not tell {definition.file.shown} from {first.file.shown}: both are"
                f" '{reference}' in {within} of a source; rename one of the files that require them"
            )
            raise NoDefinition("ambiguous-definition", message)

    @property
    def shared(self) -> Mapping[Key, Pin]:
        """The pins of definitions that can change without the job, for a lock file beside it."""
        return {key: replace(_pin(key, each), location="") for key, each in self._shared.items()}

    @property
    def carried(self) -> Iterable[bytes]:
        """What of that a lock file beside the job has to carry: others cannot fetch it from its origin."""
        files = (definition.file for definition in self._shared.values())
        return [file.content for file in files if not is_url(file.origin)]

    @property
    def _shared(self) -> Mapping[Key, Definition]:
        return {key: each for key, each in self._found.items() if not _is_local(each.file)}

    def resolved(self) -> str:
        """Return a lock file with the bytes of everything that was found, the job's own files included."""
        pins = [_pin(key, definition) for key, definition in self._found.items()]
        return (
            lock_text(pins, (definition.file.content for definition in self._found.values())) if pins else ""
        )


def keep_file(cache: Cache, file: DefinitionFile) -> None:
    """Cache a file that came over a network."""
    if is_url(file.origin):
        cache.keep(file.origin, file.content)


def kept_file(cache: Cache, pin: Pin) -> DefinitionFile | None:
    """Return a pinned file from the cache, of the same origin, as policies may refuse others; or None."""
    content = cache.pinned(pin.origin, pin.digest)
    return None if content is None else DefinitionFile(pin.origin, pin.origin, pin.origin, content)


def _comes_with_job(reference: Reference, above: DefinitionFile | None) -> bool:
    return reference.kind == "path" and (above is None or _is_local(above))


def _asked(pin: Pin, reference: Reference) -> str:
    """Return the URL at which to ask for a pinned file, with the query that the lock file lacks."""
    if reference.kind == "url" and named(url := canonical(reference.target.partition("#")[0])) == pin.origin:
        return url
    return pin.origin


def _may_be_own(reference: Reference, above: DefinitionFile | None) -> bool:
    """Return whether a reference can lead to a file beside the job, whatever a lock file says."""
    return reference.kind == "path" and (above is None or above.own)


def _is_local(file: DefinitionFile) -> bool:
    """Return whether a file is named by its path, and not by a source."""
    return file.origin.startswith(FILE)


def _pin(key: Key, definition: Definition) -> Pin:
    file, (reference, within) = definition.file, key
    return Pin(
        reference=reference,
        within=within,
        origin=shared_origin(file.origin),
        name=definition.name,
        version=definition.version,
        digest=file.digest,
        location="" if file.own or named(file.location) == file.origin else named(file.location),
        own=file.own,
    )
