"""One definition file of this machine, as a source of what is in it."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from pai_runtime.definitions.listing import listed_definitions
from pai_runtime.definitions.model import DefinitionFile, Listed, NoDefinition
from pai_runtime.definitions.reference import Reference
from pai_runtime.document.document import MAX_BYTES
from pai_runtime.document.problems import Problems
from pai_runtime.task.regular_file import open_regular


class FileSource:
    """A definition file, which is read when it is asked for the first time."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.location = os.path.realpath(path)
        self._path = path

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """The file, whatever is in it; it has no items."""
        return (self.file,) if reference.kind == "name" else ()

    def read(self, origin: str) -> DefinitionFile | None:
        """The file, if its origin ``NAME:FILE`` is meant."""
        return self.file if origin == f"{self.name}:{self._path.name}" else None

    def list(self, problems: Problems) -> Sequence[Listed]:
        """All that is in the file."""
        return listed_definitions([self.file], problems)

    @cached_property
    def file(self) -> DefinitionFile:
        """The file; raises `NoDefinition` if it cannot be read."""
        try:
            with open_regular(self.location) as stream:  # and not what the path means by now
                content = stream.read(MAX_BYTES + 1)
        except OSError as error:
            message = f"{self._path} cannot be read: {error.strerror}"
            raise NoDefinition("definition-unavailable", message) from None
        return DefinitionFile(
            origin=f"{self.name}:{self._path.name}",
            shown=str(self._path),
            location=self.location,
            content=content,
        )
