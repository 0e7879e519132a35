"""Definitions and the files that they are written in, and what finds them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from pai_runtime.definitions.reference import Reference
from pai_runtime.document.problems import Position, Problems
from pai_runtime.document.value import Value
from pai_runtime.task.record import record


@record(frozen=True)
class DefinitionFile:
    """Bytes in which definitions are written, and where they came from.

    `origin` is what a lock file calls it: its URL, without a query that may be secret, or ``SOURCE:PATH`` for
    a file of a folder, or ``file:PATH`` for one that is named by its path. `shown` is what messages call it.
    `location` is what a policy decides by: its URL, or its absolute path. `author` is who has published it,
    where a server says so. What is `own` is a file of the job itself, next to the job file: a policy for
    shared definitions does not apply to it, nor to the plugins that it uses. `job` is the whole job that it
    is from, on a server of jobs.
    """

    origin: str
    shown: str
    location: str
    content: bytes
    author: str = ""
    own: bool = False
    job: str = ""

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the content, in 64 hexadecimal digits."""
        return sha256(self.content).hexdigest()


@record(frozen=True)
class Variable:
    """A template variable that a definition declares. Without a `default` it has to be given.

    `type` is one of string, number, integer, boolean, list, mapping; empty if any will do.
    """

    name: str
    type: str
    description: str
    default: Value | None
    value: Value


@record(frozen=True)
class Definition:
    """A definition as it is written; `value` is a mapping, with templates in it that are not rendered."""

    name: str
    kind: str
    version: str
    title: str
    summary: str
    usage: str
    variables: Mapping[str, Variable]
    value: Value
    file: DefinitionFile


@record(frozen=True)
class Given:
    """The value of a template variable: as data, and as it is inserted into a text."""

    data: Any
    text: str
    position: Position


class NoDefinition(Exception):
    """There is none that may be used. `code` is that of the problem, as in `pai_runtime.document.problems`.

    ``no-such-definition`` (with `known` names that may have been meant), ``definition-forbidden`` (the server
    refuses: no right), ``definition-refused`` (a policy does), ``definition-unavailable`` (no answer),
    ``ambiguous-definition``, ``wrong-digest``, ``not-locked``, ``wrong-reference``.
    """

    def __init__(self, code: str, message: str, known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.known = tuple(known)


class WholeJob(NoDefinition):
    """What a server has is a whole job, and no definition: `file` has no content, and the job."""

    def __init__(self, message: str, file: DefinitionFile) -> None:
        super().__init__("wrong-reference", message)
        self.file = file


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


OpenLibrary = Callable[[Mapping[str, Value]], Library]
"""Opens the library for a job with these secrets, which tokens of sources may name; raises `InvalidInput`."""


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
