"""A job that is asked for again: seldom if nothing changes, and never more often than is allowed."""

import time
from typing import Any, Final

from pai_openpai.client.api import Api, Known
from pai_runtime.engine.messages import RequestError

FIRST_PAUSE: Final = 2.0
"""Seconds between two looks at a job; if it does not change, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE: Final = 15.0

LEFT: Final = 0
"""Requests a minute that are left for others."""

_MORE: Final = 1.5
_AWAY: Final = 60.0
_MOST_DOUBLINGS: Final = 6
_LONGEST_AWAY: Final = 600.0
"""Seconds that a server may ask to wait."""


class Polled:
    """The document at a path of the API."""

    def __init__(self, api: Api, path: str, what: str, **query: str) -> None:
        self._api = api
        self._path = path
        self._what = what
        self._query = query
        self._known: Known | None = None
        self._next = 0.0
        self._pause = FIRST_PAUSE
        self.failures = 0

    def document(self) -> Any:
        """Return the document as it was last seen. Raises `RequestError` if it has never been."""
        now = time.monotonic()
        if self._known is None or (now >= self._next and self._api.room() > LEFT):
            self._look(now)
        assert self._known is not None  # noqa: S101 - for the type checker: else an error was raised
        return self._known.document

    def _look(self, now: float) -> None:
        try:
            new = (
                self._api.known(self._path, what=self._what, **self._query)
                if self._known is None
                else self._api.changed(self._path, self._known, what=self._what, **self._query)
            )
        except RequestError as error:
            if self._known is None or not error.may_pass:
                raise
            self.failures += 1
            doublings = min(self.failures, _MOST_DOUBLINGS)
            pause = error.pause or min(self._pause * 2**doublings, _AWAY)
            self._next = now + min(pause, _LONGEST_AWAY)
            return
        self.failures = 0
        if new is not None:
            self._known = new
        self._pause = FIRST_PAUSE if new is not None else min(self._pause * _MORE, LONGEST_PAUSE)
        self._next = time.monotonic() + self._pause
