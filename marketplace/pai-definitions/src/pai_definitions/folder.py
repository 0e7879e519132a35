"""Definition files in a directory, such as a git checkout, found by the names in them."""

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from pai_definitions.listing import listed_definitions
from pai_definitions.model import Listed
from pai_definitions.reference import Reference
from pai_document.document import MAX_BYTES
from pai_document.problems import Position, Problem, Problems
from pai_runtime.definitions import DefinitionFile, NoDefinition
from pai_task.folder import Folder

MOST_ENTRIES: Final = 20_000
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_LEVELS: Final = 20
"""Limits of a folder of definitions, so that reading a wrong one, such as a home directory, ends soon."""

_SUFFIXES: Final = (".yaml", ".yml")
_NAMED: Final = re.compile(
    rb"""\bname["']?\s*:\s*(?:[&!](?=(\S{0,255}))\1\s+){0,2}["']?([a-zA-Z0-9_-]{1,255})(?![a-zA-Z0-9_-])"""
)
"""A name, after an anchor and a tag. Each of these is taken whole or not at all: no file takes long."""
_JOB: Final = re.compile(rb"""^["']?type["']?\s*:\s*["']?job\b""", re.MULTILINE)


class FolderSource:
    """A source of all YAML files below a directory; no link that leads out of it is followed.

    It is read once, and what is read is not parsed: a name is looked for where a file has it as the value of
    a key ``name``. Job files and what is hidden are left out. `location` takes the place of its path in
    policies; messages then call its files by their origins.
    """

    def __init__(self, name: str, folder: Path, location: str = "") -> None:
        self.name = name
        self._folder = folder
        self._root = Path(os.path.realpath(folder))
        self._is_at_root = not location
        self.location = location or str(self._root)

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """Return the files that contain the name; a folder has no items, and nothing in it an owner."""
        if reference.kind != "name" or reference.owner:
            return ()
        return [self._file(path) for path in self._by_name.get(reference.target.encode(), ())]

    def read(self, origin: str) -> DefinitionFile | None:
        """Return the file of an origin ``NAME:PATH``; None if it is not in this folder."""
        name, _, path = origin.partition(":")
        return self._file(path) if name == self.name and path in self._contents else None

    def list(self, problems: Problems) -> Sequence[Listed]:
        """List all definitions in the folder."""
        return listed_definitions(self.files(problems), problems)

    def files(self, problems: Problems) -> Sequence[DefinitionFile]:
        """Return all files; unreadable ones are reported."""
        files = [self._file(path) for path in self._contents]
        problems.add(*self._read[1])
        return files

    @property
    def jobs(self) -> Mapping[str, bytes]:
        """The content of each file that is a whole job, and no definition, by its path below the folder."""
        return {path: content for path, content in self._read[0].items() if _JOB.search(content)}

    def _file(self, path: str) -> DefinitionFile:
        origin, content = f"{self.name}:{path}", self._contents[path]
        if not self._is_at_root:
            return DefinitionFile(origin, origin, self.location, content)
        # There may be thousands of them, and a `Path` takes much longer.
        shown = os.path.join(self._folder, path)  # noqa: PTH118 - as above
        return DefinitionFile(origin, shown, os.path.join(self._root, path), content)  # noqa: PTH118 - as above

    @cached_property
    def _by_name(self) -> Mapping[bytes, Sequence[str]]:
        found: dict[bytes, list[str]] = {}
        for path, content in self._contents.items():
            for name in dict.fromkeys(match[2] for match in _NAMED.finditer(content)):
                found.setdefault(name, []).append(path)
        return found

    @cached_property
    def _contents(self) -> Mapping[str, bytes]:
        return {path: content for path, content in self._read[0].items() if not _JOB.search(content)}

    @cached_property
    def _read(self) -> tuple[Mapping[str, bytes], Sequence[Problem]]:
        """The files by their paths below the folder, in order, and the problems of unreadable ones."""
        problems: list[Problem] = []
        try:
            with Folder.at(self._root) as root:
                return _Reading(self._root, self._folder, root, problems).contents(), problems
        except _Unbounded as error:
            why = str(error)
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        raise NoDefinition(
            "definition-unavailable", f"the folder of the source '{self.name}', {self._folder}, {why}"
        )


class _Unbounded(Exception):
    """The exception for a folder beyond the limits; it says what there is too much of."""


class _Reading:
    """A bounded traversal of a folder; `shown` is its path in messages."""

    def __init__(self, path: Path, shown: Path, root: Folder, problems: list[Problem]) -> None:
        self._path = path
        self._shown = shown
        self._root = root
        self._problems = problems
        self._entries = self._size = 0

    def contents(self) -> dict[str, bytes]:
        """Return the content of each file, by its path below the folder."""
        return dict(self._walk(self._root, ""))

    def _walk(self, folder: Folder, above: str) -> Iterator[tuple[str, bytes]]:
        for name in sorted(folder.names()):
            path = f"{above}{name}"
            self._entries += 1
            if self._entries > MOST_ENTRIES:
                raise _Unbounded(f"has more than {MOST_ENTRIES} entries")
            if name.startswith(".") or not name.isprintable():
                continue
            if name.endswith(_SUFFIXES):
                content = self._content(folder, name, path)
                if content is not None:
                    yield path, content
                continue
            try:
                inner = folder.folder(name)
            except OSError:  # no directory, a link to one, or one that is not for us
                continue
            with inner:
                if path.count("/") >= MOST_LEVELS:
                    raise _Unbounded(f"has directories on more than {MOST_LEVELS} levels")
                yield from self._walk(inner, f"{path}/")

    def _content(self, folder: Folder, name: str, path: str) -> bytes | None:
        """Return the content of a file; None after reporting that it cannot be read."""
        try:
            try:
                content = folder.read(name, MAX_BYTES)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                # A link to what is in the folder too, as in a mounted ConfigMap.
                target = os.path.realpath(self._path / path)
                content = self._root.read(os.path.relpath(target, self._path), MAX_BYTES)
        except OSError as error:
            position = Position(str(self._shown / path))
            self._problems.append(Problem("unreadable", f"cannot be read: {error.strerror}", position))
            return None
        self._size += len(content)
        if self._size > MOST_BYTES:
            raise _Unbounded(f"has more than {MOST_BYTES // 1024 // 1024} MiB")
        return content
