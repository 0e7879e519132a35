"""The library of a job: definitions by their references, from permitted sources."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import quote, urljoin

from pai_definitions.choice import chosen, published_name
from pai_definitions.definition import read_definitions
from pai_definitions.model import DefinitionSource
from pai_definitions.origins import SHARED
from pai_definitions.reference import Reference
from pai_definitions.single_file import file_at, local_content
from pai_definitions.web import Web
from pai_document.problems import InvalidInput, Position, Problems, listed
from pai_runtime.definitions import Definition, DefinitionFile, NoDefinition
from pai_runtime.host.locations import EMBEDDED, FILE, canonical, is_below, is_url
from pai_task.record import replace


class SourceLibrary:
    """A library that asks `sources` in order for names, and finds what a path or a URL names.

    `job` is the job file, to which paths are relative; None if it is in no file. `refusal` returns why a
    location may not be used, None if it may; a refused source is skipped.
    """

    def __init__(
        self,
        sources: Sequence[DefinitionSource],
        web: Web,
        refusal: Callable[[str], str | None],
        job: Path | None = None,
    ) -> None:
        self._sources = sources
        self._web = web
        self._refusal = refusal
        self._job = job
        self._found: dict[tuple[str, str], Definition | NoDefinition | InvalidInput] = {}
        self._files: dict[tuple[str, str], DefinitionFile] = {}
        self._read: dict[tuple[str, str], Sequence[Definition] | InvalidInput] = {}

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        """Return the definition that a reference means; see `Library.find`."""
        is_relative = reference.kind in ("plain", "path") and above is not None
        key = reference.text, above.origin if above and is_relative else ""
        if key not in self._found:
            try:
                self._found[key] = self._find(reference, above, required_by)
            except (NoDefinition, InvalidInput) as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, Definition):
            return found
        raise found

    def permits(self, location: str) -> bool:
        """Whether definitions from a location may be used."""
        return self._refusal(location) is None

    def file(self, origin: str, digest: str = "") -> DefinitionFile:
        """Return the file of an origin, with this digest if there are several. Raises as `find`."""
        key = origin, digest
        if key not in self._files:
            is_local = origin.startswith(FILE)
            self._files[key] = self._local(origin) if is_local else self._remote(origin, digest)
        return self._files[key]

    def beside(self, reference: Reference, file: DefinitionFile, required_by: Position) -> Definition | None:
        """Return the definition that a plain name means in its own file; None if there is none.

        Raises as `find`.
        """
        found = self._definitions(file, required_by)
        same = [definition for definition in found if definition.name == reference.target]
        return chosen(reference, same) if same else None

    def meant(self, reference: Reference, file: DefinitionFile, required_by: Position) -> Definition:
        """Return the definition in a file that a reference means, whatever other files contain.

        Raises as `find`.
        """
        if not file.own:
            self._check(file.location)
        if reference.kind in ("name", "item"):
            found = self._named(reference, [file], required_by)
            if typed := [each for each in found if reference.type in ("", each.kind)]:
                return chosen(reference, typed)
            message = f"{file.shown} does not have '{published_name(reference)}'"
            raise NoDefinition("no-such-definition", message)
        target, _, name = reference.target.partition("#")
        found = self._definitions(file, required_by)
        if named := [definition for definition in found if definition.name == (name or definition.name)]:
            return chosen(reference, named)
        message = f"{target} has no definition '{name}'" if name else f"{target} has no definition"
        raise NoDefinition("no-such-definition", message, [definition.name for definition in found])

    def _find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        if reference.kind == "plain":
            if above and (same := self.beside(reference, above, required_by)):
                return same
            reference = replace(reference, kind="name")
        if reference.kind in ("name", "item"):
            return self._published(reference, required_by)
        origin = _origin(reference, reference.target.partition("#")[0], above)
        return self.meant(reference, self.file(origin, reference.digest), required_by)

    def _published(self, reference: Reference, required_by: Position) -> Definition:
        """Return the definition from the first source that has it."""
        refused, of_other_types = [], list[Definition]()
        for source in self._sources:
            if reason := self._refusal(source.location):
                refused.append(f"the source '{source.name}': {reason}")
                continue
            found = self._named(reference, source.find(reference), required_by)
            if typed := [each for each in found if reference.type in ("", each.kind)]:
                return chosen(reference, typed)
            of_other_types += found
        name = published_name(reference)
        if of_other_types:
            at, kind = of_other_types[0].file.shown, of_other_types[0].kind or "none"
            message = f"expected '{name}' to be of type {reference.type}, found type {kind} in {at}"
            raise NoDefinition("no-such-definition", message)
        if refused:
            message = f"no source that may be used has it; not asked: {'; '.join(refused)}"
            raise NoDefinition("definition-refused", message)
        asked = listed([source.name for source in self._sources])
        if reference.kind == "item":
            message = f"no source has it; only marketplace servers have items; asked: {asked}"
            raise NoDefinition("no-such-definition", message)
        raise NoDefinition("no-such-definition", f"no source has '{name}'; asked: {asked}", self._names)

    def _named(
        self, reference: Reference, files: Sequence[DefinitionFile], required_by: Position
    ) -> Sequence[Definition]:
        """Return the definitions of a name; an invalid file is skipped unless it seems to define it."""
        name, found, unsound = reference.target, list[Definition](), list[InvalidInput]()
        for file in files:
            try:
                definitions = self._definitions(file, required_by)
            except InvalidInput as error:
                if reference.kind == "item" or _is_about(name, file.content):
                    raise
                unsound.append(error)
                continue
            found += (each for each in definitions if reference.kind == "item" or each.name == name)
        if unsound and not found:
            raise unsound[0]
        return found

    @cached_property
    def _names(self) -> Sequence[str]:
        """All names of definitions, for suggestions; listing a source may take long."""
        names: list[str] = []
        for source in self._sources:
            with suppress(NoDefinition, InvalidInput):
                names += (each.name for each in source.list(Problems()))
        return names

    def _definitions(self, file: DefinitionFile, required_by: Position) -> Sequence[Definition]:
        key = file.origin, file.digest
        if key not in self._read:
            try:
                self._read[key] = read_definitions(file, required_by)
            except InvalidInput as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, InvalidInput):
            raise found
        return found

    def _local(self, origin: str) -> DefinitionFile:
        """Return the file at a path."""
        if self._job is None:
            message = (
                f"{origin.removeprefix(FILE)} is nowhere: the job is in no file that it could be next to"
            )
            raise NoDefinition("definition-unavailable", message)
        folder = self._job.parent
        shown = folder / origin.removeprefix(FILE)
        path = Path(os.path.realpath(shown))
        is_own = path.is_relative_to(os.path.realpath(folder))
        if not is_own:
            self._check(str(path))
        return DefinitionFile(origin, str(shown), str(path), local_content(path, shown), own=is_own)

    def _remote(self, origin: str, digest: str) -> DefinitionFile:
        """Return a file of a source, or at a URL."""
        if origin.startswith(SHARED):
            return self._shared(origin, digest)
        for source in self._sources:
            if _may_have(source, origin):
                self._check(source.location)
                if file := source.read(origin):
                    return file
        if not is_url(origin):
            raise NoDefinition("no-such-definition", f"no source has {origin}")
        self._check(origin)
        return file_at(origin, self._web, digest)

    def _shared(self, origin: str, digest: str) -> DefinitionFile:
        """Return the file at a path in any source, preferably one with this digest."""
        path, found, why = origin.removeprefix(SHARED), list[DefinitionFile](), list[NoDefinition]()
        for source in self._sources:
            if is_url(source.location) or source.location == EMBEDDED:
                continue
            try:
                self._check(source.location)
                file = source.read(f"{source.name}:{path}")
            except NoDefinition as error:
                why.append(error)
                continue
            found += [file] if file else []
        if not found:
            raise why[0] if why else NoDefinition("no-such-definition", f"no source has {path}")
        return next((file for file in found if file.digest == digest), found[0])

    def _check(self, location: str) -> None:
        if reason := self._refusal(location):
            raise NoDefinition("definition-refused", reason)


def _origin(reference: Reference, target: str, above: DefinitionFile | None) -> str:
    """Return the origin of the file at a URL, or at a path relative to the file `above`."""
    if reference.kind == "url":
        return canonical(target)
    within = above.origin if above else FILE
    is_absolute = target.startswith("/") or reference.text.startswith(FILE)
    if within.startswith(FILE):
        return FILE + normpath(join(dirname(within.removeprefix(FILE)), target))
    if is_absolute:
        message = f"{within} is not on this machine or is shared, so that a path in it must be relative"
        raise NoDefinition("wrong-reference", message)
    if is_url(within):
        return canonical(urljoin(within, quote(target)))
    source, _, path = within.partition(":")
    path = normpath(join(dirname(path), target))
    if path.startswith("../"):
        raise NoDefinition("wrong-reference", f"'{target}' leads out of the folder of the source '{source}'")
    return f"{source}:{path}"


def _may_have(source: DefinitionSource, origin: str) -> bool:
    if is_url(origin):
        return is_below(origin, source.location)
    return origin.startswith(f"{source.name}:")


def _is_about(name: str, content: bytes) -> bool:
    """Return whether a file seems to define this name, judged without parsing it."""
    pattern = rb"""^(?:- *)?["']?name["']?\s*:\s*["']?%s(?![a-zA-Z0-9_-])""" % name.encode()
    return re.search(pattern, content, re.MULTILINE) is not None
