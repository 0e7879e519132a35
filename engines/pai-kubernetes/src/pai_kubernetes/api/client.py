"""A client of the Kubernetes API, for requests with complete answers and for streams."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from pai_kubernetes.api.access import Access, Login
from pai_kubernetes.api.connections import Connections
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.messages import (
    Asked,
    is_without_webhook,
    not_json,
    refusal,
    too_many,
    unreachable,
    warnings_of,
)
from pai_kubernetes.api.paths import target_of
from pai_network.answer import Answer, NoAnswer
from pai_network.client import HttpRequest, NotConnected, OpenAnswer, Upgraded
from pai_network.deadline import Deadline
from pai_network.fields import json_object
from pai_network.websocket import WebSocket, accepted, new_key, request_headers
from pai_runtime.engine import ClusterError
from pai_runtime.engine.messages import hide_authorization
from pai_runtime.plugin import backoff

SECONDS: Final = 30
"""Timeout of a request in seconds; with retries, twice as much in all."""
MOST_BYTES: Final = 64 << 20
MOST_ITEMS: Final = 100_000
SILENCE: Final = 600
"""Seconds without data after which a stream is considered broken."""

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8
_PAGE: Final = 500
_MOST_PAGES: Final = 1000
"""Maximum number of pages; a server may send shorter ones than requested."""
_MOST_WARNINGS: Final = 20


@dataclass(frozen=True)
class Listing:
    """The objects of a collection, with the version of the collection."""

    items: list[dict[str, Any]]
    version: str


class Api:
    """The API of a cluster, as one user may use it in a namespace.

    `label` names the cluster in messages: it is the name of the profile. `requests` counts the requests sent,
    `warnings` has the server's warnings, each once. Many threads may use it. All methods raise `ApiError`.
    """

    def __init__(self, access: Access, namespace: str, label: str) -> None:
        self.namespace = namespace or access.namespace
        self.label = label
        self.requests = 0
        self.warnings: dict[str, None] = {}
        self._access = access
        self._connections = Connections(access)
        self._lock = threading.Lock()

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """Return the object at a path."""
        return self._ask("get", "GET", path, query)

    def list(
        self, path: str, *, selector: str = "", fields: str = "", limit: int = _PAGE, retry: bool = True
    ) -> Listing:
        """Return all objects of a collection, read in pages of at most `limit`.

        Without `retry`, the caller retries.
        """
        try:
            return self._list(path, selector, fields, limit, retry=retry)
        except ApiError as error:
            if error.status != HTTPStatus.GONE:  # what the pages are of was given up meanwhile
                raise
        return self._list(path, selector, fields, limit, retry=retry)

    def create(self, path: str, document: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object in the collection at a path, and return it as the server has it.

        An unknown field is an error. With `dry_run`, everything is checked and nothing is created.
        """
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        return self._ask("create", "POST", path, query, document)

    def patch(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Change the object at a path by a merge patch (RFC 7396)."""
        return self._ask("patch", "PATCH", path, {}, document)

    def delete(self, path: str, *, options: Mapping[str, Any] | None = None) -> None:
        """Delete the object at a path; `options`: fields of DeleteOptions, such as propagationPolicy."""
        document = {"kind": "DeleteOptions", "apiVersion": "v1", **(options or {})}
        self._ask("delete", "DELETE", path, {}, document)

    def open(self, path: str, silence: float = SILENCE, /, **query: str | int) -> "Stream":
        """Open a stream: a watch, or a log that is followed.

        It fails when nothing comes for `silence` seconds. It is not retried, except with another login.
        """
        asked = self.asked("watch" if "watch" in query else "get", path)
        # A connection that others use next is none that somebody may end.
        headers = {**_headers("application/json, */*"), "Connection": "close"}
        request = HttpRequest("GET", _target(path, query), headers)
        login = self._login(asked)
        answer = self._opened(asked, request, login, silence)
        if isinstance(answer, Answer) and answer.status == HTTPStatus.UNAUTHORIZED:
            answer = self._opened(asked, request, self._renewed(asked, login, answer), silence)
        if isinstance(answer, Answer):
            raise refusal(asked, answer)
        return Stream(answer, asked)

    def websocket(self, path: str, query: Sequence[tuple[str, str]], protocol: str) -> WebSocket:
        """Open a WebSocket with this subprotocol, such as to a program in a pod."""
        asked, key = self.asked("create", path), new_key()
        headers = {"User-Agent": "pai-runtime", **request_headers(key, protocol)}
        request = HttpRequest("GET", f"{path}?{urlencode(query)}", headers)
        login = self._login(asked)
        answer = self._upgraded(asked, request, login)
        if isinstance(answer, Answer) and answer.status == HTTPStatus.UNAUTHORIZED:
            answer = self._upgraded(asked, request, self._renewed(asked, login, answer))
        if isinstance(answer, Answer):
            raise refusal(asked, answer)
        found = answer.headers["Sec-WebSocket-Accept"], answer.headers["Sec-WebSocket-Protocol"]
        if found != (accepted(key), protocol):
            answer.close()
            raise not_json(asked, f"it does not open a WebSocket of {protocol}")
        return WebSocket(answer)

    def asked(self, verb: str, path: str) -> Asked:
        """Return a description of a request for messages; `verb` is that of RBAC."""
        access = self._access
        return Asked(self.label, access.server, access.user, access.origin, verb, target_of(path))

    def _list(self, path: str, selector: str, fields: str, limit: int, *, retry: bool) -> Listing:
        query: dict[str, str | int] = {"limit": limit}
        query |= {"labelSelector": selector} if selector else {}
        query |= {"fieldSelector": fields} if fields else {}
        items: list[dict[str, Any]] = []
        for _ in range(_MOST_PAGES):
            page = self._ask("list", "GET", path, query, retry=retry)
            metadata, found = page.get("metadata"), page.get("items")
            if not isinstance(metadata, dict) or not isinstance(found or [], list):
                raise not_json(self.asked("list", path), "it sends no list")
            items += [each for each in found or () if is_object(each)]
            if len(items) > MOST_ITEMS:
                break
            if not metadata.get("continue"):
                return Listing(items, str(metadata.get("resourceVersion", "")))
            query["continue"] = str(metadata["continue"])
        raise too_many(self.asked("list", path), MOST_ITEMS)

    def _ask(
        self,
        verb: str,
        method: str,
        path: str,
        query: Mapping[str, str | int],
        document: Mapping[str, Any] | None = None,
        *,
        retry: bool = True,
    ) -> dict[str, Any]:
        """Return the result of a request, which is repeated as far as that helps and is safe."""
        asked = self.asked(verb, path)
        content = "application/merge-patch+json" if verb == "patch" else "application/json"
        body = b"" if document is None else json.dumps(document).encode()
        request = HttpRequest(method, _target(path, query), _headers("application/json", content), body)
        login, renewed = self._login(asked), False
        may_change = verb == "create" and "dryRun" not in query  # what a second request would do once more
        deadline, failures = Deadline(2 * SECONDS), 0
        while True:
            pause = 0.0
            try:
                seconds = min(SECONDS, deadline.left())
                answer = self._connections.ask(self._sent(request, login), login, seconds, MOST_BYTES)
            except NoAnswer as error:
                sent = not isinstance(error, NotConnected)
                failure = unreachable(asked, str(error), sent=sent, may_pass=not error.permanent)
                repeatable = not error.permanent and not (may_change and sent)
            else:
                if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    self._keep_warnings(answer)
                    return _object(asked, answer)
                if answer.status == HTTPStatus.UNAUTHORIZED and not renewed:
                    login, renewed = self._renewed(asked, login, answer), True
                    continue
                failure, pause = refusal(asked, answer), answer.pause
                not_begun = answer.status == HTTPStatus.TOO_MANY_REQUESTS or is_without_webhook(answer)
                repeatable = not_begun or (answer.may_pass and not may_change)
            failures += 1
            pause = max(pause, backoff(failures, _FIRST_PAUSE, _LONGEST_PAUSE))
            if not (retry and repeatable and deadline.wait(pause)):
                raise failure

    def _keep_warnings(self, answer: Answer) -> None:
        with self._lock:
            for text in warnings_of(answer):
                if len(self.warnings) < _MOST_WARNINGS:
                    self.warnings.setdefault(text)

    def _opened(
        self, asked: Asked, request: HttpRequest, login: Login, silence: float
    ) -> Answer | OpenAnswer:
        try:
            return self._connections.open(self._sent(request, login), login, SECONDS, silence)
        except NoAnswer as error:
            raise unreachable(asked, str(error), may_pass=not error.permanent) from None

    def _upgraded(self, asked: Asked, request: HttpRequest, login: Login) -> Answer | Upgraded:
        try:
            return self._connections.upgrade(self._sent(request, login), login, SECONDS)
        except NoAnswer as error:
            raise unreachable(asked, str(error), may_pass=not error.permanent) from None

    def _login(self, asked: Asked) -> Login:
        try:
            return self._access.credentials.login()
        except ClusterError as error:
            raise ApiError(f"{asked.label}: {error}", sent=False) from None

    def _renewed(self, asked: Asked, login: Login, answer: Answer) -> Login:
        """Return another login than the refused one. Raises `ApiError` if there is none."""
        try:
            other = self._access.credentials.renewed(login)
        except ClusterError as error:
            raise ApiError(f"{asked.label}: {error}", sent=False) from None
        if other == login:
            raise refusal(asked, answer)
        return other

    def _sent(self, request: HttpRequest, login: Login) -> HttpRequest:
        """Return the request with its login, and count it."""
        with self._lock:
            self.requests += 1
        if not login.authorization:
            return request
        hide_authorization(login.authorization)
        headers = {**request.headers, "Authorization": login.authorization}
        return HttpRequest(request.method, request.target, headers, request.body)


class Stream:
    """A streamed answer; one thread reads it, and any thread may close it, which ends a read at once."""

    def __init__(self, answer: OpenAnswer, asked: Asked) -> None:
        self._answer = answer
        self._asked = asked

    def __enter__(self) -> "Stream":  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`, as soon as there are any; empty at the end, or once closed.

        Raises `ApiError` if the stream breaks.
        """
        try:
            return self._answer.read(most)
        except NoAnswer as error:
            raise unreachable(self._asked, str(error), may_pass=True) from None

    def close(self) -> None:
        """Close the stream."""
        self._answer.close()


def is_object(value: Any) -> bool:
    """Return whether a value in an answer is an object of the API with a name."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _object(asked: Asked, answer: Answer) -> dict[str, Any]:
    document = json_object(answer.body)
    if document is None:
        kind = answer.headers.get_content_type()
        raise not_json(asked, "it sends no object" if kind == "application/json" else f"it sends {kind}")
    return document


def _target(path: str, query: Mapping[str, str | int]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _headers(accept: str, content: str = "") -> dict[str, str]:
    headers = {"Accept": accept, "User-Agent": "pai-runtime"}
    return {**headers, "Content-Type": content} if content else headers
