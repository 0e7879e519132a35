"""Watches of a collection: all its objects as they are now, and each change as it comes."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from pai_kubernetes.api.client import MOST_ITEMS, Api, Stream, is_object
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.messages import event_error, too_many
from pai_network.fields import json_object
from pai_runtime.plugin import backoff

SYNCED: Final = "SYNCED"
ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
FAILED: Final = "FAILED"

MOST_OF_EVENT: Final = 16 << 20
"""Maximum size of an event; etcd keeps no object of more than 1.5 MiB by default."""

_LONGEST: Final = (240, 300)
"""Bounds in seconds of the random time after which the server ends a watch, so that not all end at once."""
_SILENCE: Final = 120
"""Seconds without data after which a watch is broken; servers send a bookmark each minute."""
_SOON: Final = 5
_MOST_FAILURES: Final = 3
"""Number of consecutive failures after which all objects are listed again, in case of a bad event."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30
_LONGEST_ASKED: Final = 120
_PIECE: Final = 1 << 16


class Watch:
    """A collection that is listed, and then watched in a thread of its own until it is closed.

    `objects` may have no ``kind`` if they come from a list, and none has ``managedFields``. `on_change` is
    called in the thread with the kind of change and the object: ``SYNCED`` (empty object) when all of
    `objects` is new, ``ADDED``, ``MODIFIED``, ``DELETED``, and finally ``FAILED`` for a permanent `error`,
    such as 403. `trouble` is why it is not up to date at present, if so, while it keeps trying.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        *,
        selector: str = "",
        fields: str = "",
        on_change: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self.error: ApiError | None = None
        self.trouble: ApiError | None = None
        self._api = api
        self._path = path
        self._selector = selector
        self._fields = fields
        self._on_change = on_change
        self._lock = threading.Lock()
        self._objects: dict[str, dict[str, Any]] = {}
        self._taken: Mapping[str, dict[str, Any]] | None = None
        self._closed = threading.Event()
        self._has_begun = threading.Event()
        self._stream: Stream | None = None
        self._failures = 0

    @property
    def objects(self) -> Mapping[str, dict[str, Any]]:
        """All objects by name, as an immutable mapping that is replaced when they change."""
        with self._lock:
            if self._taken is None:
                self._taken = dict(self._objects)
            return self._taken

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name=f"watch {self._path}", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` until all objects have been listed once. Raises `ApiError`."""
        if not self._has_begun.wait(seconds) and self.error is None:
            raise ApiError(f"{self._api.label}: the cluster does not answer", may_pass=True)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """End the watch without waiting for its thread, which makes no further call."""
        self._closed.set()
        if self._stream:
            self._stream.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                listing = self._api.list(
                    self._path, selector=self._selector, fields=self._fields, retry=False
                )
                objects = {each["metadata"]["name"]: _kept(each) for each in listing.items}
                with self._lock:
                    self._objects, self._taken = objects, None
                self.trouble = None
                self._tell(SYNCED, {})
                self._follow(listing.version)
            except ApiError as error:
                if not error.may_pass:
                    self.error = error
                    self._tell(FAILED, {})
                    return
                self._pause(error)

    def _follow(self, version: str) -> None:
        """Watch from a version on, until all has to be listed again. Raises `ApiError`."""
        while not self._closed.is_set():
            began, seen = time.monotonic(), version
            try:
                for event in self._events(version):
                    version = self._apply(event) or version
                trouble = None
            except ApiError as error:
                if error.status == HTTPStatus.GONE:
                    return
                if not error.may_pass:
                    raise
                trouble = error
            if version != seen or (trouble is None and time.monotonic() - began > _SOON):
                self._failures = 0
            else:  # also one that ends at once, again and again
                self._pause(trouble)
            if self._failures >= _MOST_FAILURES:
                return

    def _events(self, version: str) -> Iterator[dict[str, Any]]:
        query = {"labelSelector": self._selector, "fieldSelector": self._fields, "resourceVersion": version}
        stream = self._api.open(
            self._path,
            _SILENCE,
            watch="true",
            allowWatchBookmarks="true",
            timeoutSeconds=random.randint(*_LONGEST),  # noqa: S311 - no secret
            **{key: value for key, value in query.items() if value},
        )
        self._stream = stream
        if self._closed.is_set():  # after it was set: none that comes too late is overlooked
            stream.close()
        self.trouble = None
        with stream:
            yield from _parsed(stream, self._api, self._path)

    def _apply(self, event: dict[str, Any]) -> str:
        """Apply an event, and return the version after it.

        Raises `ApiError` for an event that is an error.
        """
        kind, document = event.get("type"), event.get("object")
        if kind == "ERROR":
            raise event_error(self._api.asked("watch", self._path), document)
        metadata = document.get("metadata") if isinstance(document, dict) else None
        version = str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""
        if kind in (ADDED, MODIFIED, DELETED) and is_object(document) and isinstance(document, dict):
            name = document["metadata"]["name"]
            with self._lock:
                if kind == DELETED:
                    self._objects.pop(name, None)
                elif name in self._objects or len(self._objects) < MOST_ITEMS:
                    self._objects[name] = _kept(document)
                else:
                    raise too_many(self._api.asked("watch", self._path), MOST_ITEMS)
                self._taken = None
            self._tell(str(kind), document)
        return version

    def _tell(self, kind: str, document: dict[str, Any]) -> None:
        if not self._closed.is_set():
            self._on_change(kind, document)
        if kind in (SYNCED, FAILED):
            self._has_begun.set()

    def _pause(self, trouble: ApiError | None) -> None:
        self.trouble = trouble
        self._failures += 1
        asked = min(trouble.pause, _LONGEST_ASKED) if trouble else 0
        self._closed.wait(max(asked, backoff(self._failures, _FIRST_PAUSE, _LONGEST_PAUSE)))


def _kept(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object without ``managedFields``, which are half of the size of a pod."""
    document["metadata"].pop("managedFields", None)
    return document


def _parsed(stream: Stream, api: Api, path: str) -> Iterator[dict[str, Any]]:
    """Yield the events in a stream, without one that is cut off at its end. Raises `ApiError`."""
    line = bytearray()
    while piece := stream.read(_PIECE):
        *ended, rest = piece.split(b"\n")
        for each in ended:
            line += each
            if line.strip():
                yield _event(bytes(line), api, path)
            line.clear()
        line += rest
        if len(line) > MOST_OF_EVENT:
            raise _strange(api, path, f"an event of more than {MOST_OF_EVENT} bytes")


def _event(line: bytes, api: Api, path: str) -> dict[str, Any]:
    event = json_object(line)
    if event is None:
        raise _strange(api, path, "what is no event")
    return event


def _strange(api: Api, path: str, what: str) -> ApiError:
    asked = api.asked("watch", path)
    return ApiError(f"{api.label}: the watch of {asked.target.full_resource} sends {what}", may_pass=True)
