"""Definitions, the files that contain them, and the interface that finds them.

A *definition* is a prerequisite outside the job file that jobs may require, with template variables that they
give it. `pai_runtime.job.expansion` puts definitions into a job.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, Protocol, runtime_checkable

from pai_document.problems import Position
from pai_document.value import Value
from pai_task.record import record


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


@runtime_checkable
class Definitions(Protocol):
    """The definitions that one job may require, and their rendering with values for their variables."""

    def find(self, name: str, above: DefinitionFile | None, required_by: Position) -> Definition:
        """Return the definition that a reference in the file `above` means; None means the job file.

        `required_by` is the position of the reference, which positions in the definition then have. Raises
        `NoDefinition`, or `InvalidInput` for an invalid file. Repeated calls with the same reference are
        cheap.
        """

    def completed(
        self, definition: Definition, given: Mapping[str, Given], asked: Value
    ) -> Mapping[str, Given]:
        """Return the values of all variables: those given, and defaults. Raises `InvalidInput`.

        `asked` is the value that requires the definition.
        """

    def rendered(
        self, definition: Definition, variables: Mapping[str, Given], required_by: Position
    ) -> Value:
        """Return the definition as a prerequisite, rendered with these values. Raises `InvalidInput`."""

    def resolved(self) -> str:
        """Return a lock file that contains everything that was found; empty if nothing was."""


OpenDefinitions = Callable[[Mapping[str, Value]], Definitions]
"""Opens the definitions of a job with these secrets, which tokens of sources may name.

Raises `InvalidInput` for an invalid configuration, and `NoDefinition` if nothing can find any.
"""

RESOLVED: Final = "definitions.lock"
"""The name of a lock file with content, in the directory of a run and in a pod's configuration."""
