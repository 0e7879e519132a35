"""What the service refuses, and why; each has the status code of its answer over HTTP."""

from collections.abc import Sequence
from typing import ClassVar

from pai_document.problems import Problem


class Refused(Exception):
    """The exception for a request that cannot be granted; the message is for the person who made it."""

    status: ClassVar = 400
    code: ClassVar = "bad-request"


class Invalid(Refused):
    """What was sent is invalid; `problems` has the reasons in a definition or a job, with their positions."""

    code = "invalid"

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class NotSignedIn(Refused):
    """Nobody is signed in, or by a token that is unknown, revoked or expired."""

    status = 401
    code = "not-signed-in"


class Forbidden(Refused):
    """The person has no right to it."""

    status = 403
    code = "forbidden"


class NotFound(Refused):
    """It does not exist, or nobody may tell this person that it does."""

    status = 404
    code = "not-found"


class Unavailable(Refused):
    """Another server, which is needed for it, does not do its part."""

    status = 502
    code = "unavailable"


class Conflict(Refused):
    """It contradicts what is published already."""

    status = 409
    code = "conflict"


class TooLarge(Refused):
    """What was sent exceeds a limit."""

    status = 413
    code = "too-large"
