"""Definitions, the files that contain them, and the interfaces that find them."""

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
    """The bytes of a definition file, and where they came from.

    `origin` is its name in a lock file: its URL, without a query that may be secret, ``SOURCE:PATH`` for a
    file of a folder, or ``file:PATH`` for one named by its path. `shown` is its name in messages. `location`
    is what policies decide by: its URL, or its absolute path. `author` is its publisher, if a server says so.
    A file that is `own` belongs to the job, beside the job file: policies for shared definitions do not apply
    to it, nor to the plugins that it uses.
    """

    origin: str
    shown: str
    location: str
    content: bytes
    author: str = ""
    own: bool = False

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the content, in 64 hexadecimal digits."""
        return sha256(self.content).hexdigest()


@record(frozen=True)
class Variable:
    """A template variable that a definition declares; it is required if it has no `default`.

    `type` is one of string, number, integer, boolean, list, mapping; empty if any will do.
    """

    name: str
    type: str
    description: str
    default: Value | None
    value: Value


@record(frozen=True)
class Definition:
    """A definition as written; `value` is a mapping with templates that are not rendered yet."""

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
    """The value of a template variable, as data and as inserted into a text."""

    data: Any
    text: str
    position: Position


class NoDefinition(Exception):
    """The exception for a definition that is not available; `code` is that of the resulting `Problem`.

    ``no-such-definition`` (with `known` names that may have been meant), ``definition-forbidden`` (the server
    refuses: no right), ``definition-refused`` (a policy does), ``definition-unavailable`` (no answer),
    ``ambiguous-definition``, ``wrong-digest``, ``not-locked``, ``wrong-reference``.
    """

    def __init__(self, code: str, message: str, known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.known = tuple(known)


class Unreachable(NoDefinition):
    """The exception for a server that gives no answer or is overloaded, so that a cached answer is the best.

    `answered` means that it did answer, and may still deliver something else.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__("definition-unavailable", message)
        self.answered = answered


class Library(Protocol):
    """The lookup of definitions: in all configured sources, under the policy and the lock file."""

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        """Return the definition that a reference in the file `above` means; None means the job file.

        `required_by` is the position of the reference, which positions in the definition then have. Raises
        `NoDefinition`, or `InvalidInput` for an invalid file. Repeated calls with the same reference are
        cheap.
        """


OpenLibrary = Callable[[Mapping[str, Value]], Library]
"""Opens the library for a job with these secrets, which tokens of sources may name; raises `InvalidInput`."""


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
