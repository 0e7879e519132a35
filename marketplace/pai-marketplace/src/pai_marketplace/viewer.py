"""Whoever asks: what the rights depend on."""

from pai_task.record import record


@record(frozen=True)
class Viewer:
    """A person or a program; without a `name`, nobody who is known.

    What the scopes of a token withhold is False here already.
    """

    name: str = ""
    groups: frozenset[str] = frozenset()
    is_admin: bool = False
    is_reviewer: bool = False
    can_write: bool = False


ANYBODY = Viewer()
OPERATOR = Viewer("operator", is_admin=True, can_write=True)
"""Who works on the server's machine, by commands."""


@record(frozen=True)
class Identity:
    """Who somebody is, as the provider says; `groups` is None if it says nothing of them.

    `subject` is unique for all time: the issuer, a blank, and the provider's name for the person, which never
    changes. `name` is what the person is called, and nothing that could prove who it is.
    """

    subject: str
    name: str
    groups: frozenset[str] | None
