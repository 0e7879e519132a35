"""A source that is one definition file, on this machine or at a URL."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from pai_definitions.listing import listed_definitions
from pai_definitions.model import Listed
from pai_definitions.reference import Reference
from pai_definitions.web import Web
from pai_document.document import MAX_BYTES
from pai_document.problems import Problems, near_miss
from pai_runtime.definitions import DefinitionFile, NoDefinition
from pai_runtime.host.locations import named
from pai_task.regular_file import open_regular

_MOST_COMPARED: Final = 1000
"""Maximum number of files beside a missing one that are looked at."""


class SingleFile(ABC):
    """A source that is one definition file, which is read on first use."""

    def __init__(self, name: str, location: str, origin: str) -> None:
        self.name = name
        self.location = location
        self.origin = origin

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """Return the file, whatever is in it; it has no items."""
        return (self.file,) if reference.kind == "name" and not reference.owner else ()

    def read(self, origin: str) -> DefinitionFile | None:
        """Return the file if it has this origin, else None."""
        return self.file if named(origin) == self.origin else None

    def list(self, problems: Problems) -> Sequence[Listed]:
        """List the definitions in the file."""
        return listed_definitions([self.file], problems)

    @cached_property
    @abstractmethod
    def file(self) -> DefinitionFile:
        """The definition file. Raises `NoDefinition`."""


class FileSource(SingleFile):
    """A definition file of this machine, with the origin ``NAME:FILE``."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name, os.path.realpath(path), f"{name}:{path.name}")
        self._path = path

    @cached_property
    def file(self) -> DefinitionFile:
        """The definition file at the path. Raises `NoDefinition`."""
        content = local_content(Path(self.location), self._path)  # not what the path means by now
        return DefinitionFile(self.origin, str(self._path), self.location, content)


class UrlSource(SingleFile):
    """A definition file at a URL."""

    def __init__(self, name: str, url: str, web: Web) -> None:
        super().__init__(name, url, named(url))
        self._web = web

    @cached_property
    def file(self) -> DefinitionFile:
        """The definition file at the URL. Raises `NoDefinition`."""
        return file_at(self.location, self._web)


def local_content(path: Path, shown: Path) -> bytes:
    """Return the content of a definition file of this machine, named `shown` in messages.

    Raises `NoDefinition`.
    """
    try:
        with open_regular(path) as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        message = f"there is no file {shown}{_meant(path, shown)}"
        raise NoDefinition("no-such-definition", message) from None
    except OSError as error:
        message = f"{shown} cannot be read: {error.strerror}"
        raise NoDefinition("definition-unavailable", message) from None


def _meant(path: Path, shown: Path) -> str:
    """Return a question for a file beside a missing one whose name is nearly its."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _MOST_COMPARED)]
    except OSError:
        return ""
    meant = near_miss(path.name, names)
    return f"; did you mean {shown.parent / meant}?" if meant else ""


def file_at(url: str, web: Web, digest: str = "") -> DefinitionFile:
    """Return the definition file at a URL; if a digest is given, it must match. Raises as `Web.get`."""
    return DefinitionFile(named(url), named(url), url, web.get(url, digest))
