"""The interfaces that find definitions: a library, and the sources in it."""

from collections.abc import Sequence
from typing import Protocol

from pai_definitions.reference import Reference
from pai_document.problems import Position, Problems
from pai_runtime.definitions import Definition, DefinitionFile, NoDefinition
from pai_task.record import record


class Unreachable(NoDefinition):
    """The exception for a server that gives no answer or is overloaded, so that a cached answer is the best.

    `answered` means that it did answer, and may still deliver something else.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__("definition-unavailable", message)
        self.answered = answered


class WholeJob(NoDefinition):
    """What a server has is a whole job, and no definition: `file` has no content, and the job."""

    def __init__(self, message: str, file: DefinitionFile) -> None:
        super().__init__("wrong-reference", message)
        self.file = file


class Library(Protocol):
    """The lookup of definitions: in all configured sources, under the policy and the lock file."""

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        """Return the definition that a reference in the file `above` means; None means the job file.

        `required_by` is the position of the reference, which positions in the definition then have. Raises
        `NoDefinition`, or `InvalidInput` for an invalid file. Repeated calls with the same reference are
        cheap.
        """


@record(frozen=True)
class Listed:
    """A definition as an entry of a source's list, with the reference that means it.

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
    """A place where definitions are published; all methods raise `NoDefinition` or `InvalidInput`.

    `location` is what policies decide by, as in `DefinitionFile`.
    """

    name: str
    location: str

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """Return the files that may contain what a reference of kind ``name`` or ``item`` means.

        They are not parsed: the library decides which of them, and which definition in it, is meant.
        """

    def read(self, origin: str) -> DefinitionFile | None:
        """Return the file of an origin in a lock file; None if it is not one of this source's."""

    def list(self, problems: Problems) -> Sequence[Listed]:
        """List everything that is published here; unreadable parts are reported in `problems`."""
