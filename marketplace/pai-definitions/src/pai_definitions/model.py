"""What finds definitions: a library, and the sources in it."""

from collections.abc import Sequence
from typing import Protocol

from pai_definitions.reference import Reference
from pai_runtime.definitions import Definition, DefinitionFile, NoDefinition
from pai_runtime.document.problems import Position, Problems
from pai_runtime.task.record import record


class Unreachable(NoDefinition):
    """The server gave no answer, or had too much to do: what came from it earlier is the best there is.

    `answered`: it did answer, so that it may still give something else.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__("definition-unavailable", message)
        self.answered = answered


class Library(Protocol):
    """Where definitions are found: every source that is configured, under the policy and the lock file."""

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        """The definition that a reference means which stands in the file `above`; None: in the job file.

        `required_by` is where it stands: positions in the definition have it. Raises `NoDefinition`, or
        `InvalidInput` for a file that is not sound. It may be asked for the same one many times.
        """


@record(frozen=True)
class Listed:
    """A definition as a list of a source shows it, with the reference that means it.

    `title` and `description` are searched too, where the source has them.
    """

    reference: str
    name: str
    kind: str
    version: str
    summary: str
    author: str = ""
    title: str = ""
    description: str = ""


class DefinitionSource(Protocol):
    """One place where definitions are published. All methods raise `NoDefinition` or `InvalidInput`.

    `location` is where that is: what a policy decides by, as in `DefinitionFile`.
    """

    name: str
    location: str

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """Files that may have what a reference of kind ``name`` or ``item`` means; none, if it is not here.

        They are not parsed: the library tells which of them, and which definition in it, is meant.
        """

    def read(self, origin: str) -> DefinitionFile | None:
        """The file of an origin, which a lock file names; None if it is not one of this source's."""

    def list(self, problems: Problems) -> Sequence[Listed]:
        """All that is published here; what cannot be read is reported in `problems`, and the rest listed."""
