"""One definition file at a URL, as a source of what is in it."""

from collections.abc import Sequence
from functools import cached_property

from pai_runtime.definitions.listing import listed_definitions
from pai_runtime.definitions.model import DefinitionFile, Listed
from pai_runtime.definitions.reference import Reference
from pai_runtime.definitions.web import Web
from pai_runtime.document.problems import Problems


class UrlSource:
    """A definition file that is fetched when it is asked for the first time."""

    def __init__(self, name: str, url: str, web: Web) -> None:
        self.name = name
        self.location = url
        self._web = web

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """The file, whatever is in it; it has no items."""
        return (self._file,) if reference.kind == "name" else ()

    def read(self, origin: str) -> DefinitionFile | None:
        """The file, if it is meant."""
        return self._file if origin == self.location else None

    def list(self, problems: Problems) -> Sequence[Listed]:
        """All that is in the file."""
        return listed_definitions([self._file], problems)

    @cached_property
    def _file(self) -> DefinitionFile:
        return file_at(self.location, self._web)


def file_at(url: str, web: Web, digest: str = "") -> DefinitionFile:
    """The definition file at a URL, which must have the digest, if one is given; raises as `Web.get`."""
    return DefinitionFile(origin=url, shown=url, location=url, content=web.get(url, digest))
