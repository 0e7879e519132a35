"""Errors of requests to an API server."""

from dataclasses import dataclass

from pai_runtime.engine.messages import RequestError


@dataclass(frozen=True)
class Cause:
    """One cause in a ``Status``: the fault of a field, such as ``spec.replicatedJobs[0].name``."""

    field: str
    message: str


class ApiError(RequestError):
    """The exception for a request to an API server; `reason` and `causes` are those in its ``Status``."""

    causes: tuple[Cause, ...] = ()
