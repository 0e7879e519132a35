"""This server's items, as a source of definitions for what is checked here."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from pai_definitions.model import Listed, WholeJob
from pai_definitions.reference import Reference
from pai_document.problems import Problems
from pai_marketplace import items
from pai_marketplace.errors import NotFound
from pai_marketplace.models import Item, Version
from pai_marketplace.viewer import Viewer
from pai_runtime.definitions import DefinitionFile


class OwnSource:
    """What a viewer sees on this server; a name without an owner means the one item that has it."""

    name = "this server"
    location = "this server"

    def __init__(self, session: Session, viewer: Viewer) -> None:
        self._session = session
        self._viewer = viewer

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """Return the definition file of the version that a reference means."""
        if reference.kind == "item":
            item = items.by_id(self._session, self._viewer, reference.target)
            found: Sequence[Item] = [item] if item else []
        else:
            found = items.named(self._session, self._viewer, reference.owner, reference.target)
        if len(found) != 1:
            return ()
        try:
            version = items.version(self._session, self._viewer, found[0], reference.version)
        except NotFound:
            return ()
        return (self._file(found[0], version),)

    def read(self, origin: str) -> DefinitionFile | None:
        """Return None: nothing here is locked by an origin."""
        del origin
        return None

    def list(self, problems: Problems) -> Sequence[Listed]:
        """Return nothing: names are suggested by searching."""
        del problems
        return ()

    def _file(self, item: Item, version: Version) -> DefinitionFile:
        shown = f"{item.full_name}@{version.version}"
        text = items.content(self._session, version)
        if version.kind == "job":
            raise WholeJob(
                f"{shown} is a job, and no shared prerequisite",
                DefinitionFile(shown, shown, shown, b"", job=text),
            )
        return DefinitionFile(shown, shown, self.location, text.encode(), author=version.author)
