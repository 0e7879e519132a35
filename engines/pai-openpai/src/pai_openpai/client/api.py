"""The client of a cluster's REST server, and of the nodes' logs behind the same address."""

import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from pai_network.answer import Answer, NoAnswer
from pai_network.authorization import bearer
from pai_network.client import Bounds, Client, HttpRequest, NotConnected, ask_once, target_of
from pai_network.deadline import Deadline
from pai_network.fields import string
from pai_network.proxies import proxy_for
from pai_network.tls import client_context, system_trust
from pai_openpai.client.messages import not_openpai, refusal, unreachable
from pai_openpai.client.profile import OpenpaiProfile
from pai_openpai.client.token import Token, read_token, refused
from pai_runtime.engine.documents import split_url
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.messages import RequestError, hide
from pai_runtime.plugin.backoff import backoff

SECONDS: Final = 30.0
"""Timeout of a request in seconds; with retries, twice as much in all."""
MOST_A_MINUTE: Final = 60
"""Requests a minute while a run is followed: all users behind one address share 600."""

_LOG_SECONDS: Final = 10.0
_MOST_BYTES: Final = 64 << 20
_MOST_OBJECTS: Final = 500_000
_MOST_OF_ERROR: Final = 1 << 16
_MINUTE: Final = 60.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8.0
_MOST_RETRIES: Final = 3
_PREFIX: Final = "/rest-server/api/v2"
_NODE_LOGS: Final = "/log-manager/"
_SUCCESS: Final = range(200, 300)


class Known(NamedTuple):
    """A document as the server has it, and the tag by which it is asked whether it has changed."""

    document: Any
    tag: str


class Api:
    """The API of a cluster for one user. Threads may share it.

    Its token is read when it is first needed, and goes to the cluster's own address alone. All methods raise
    `RequestError`, or `ClusterError` if there is no token.
    """

    def __init__(self, profile: OpenpaiProfile, token: Token | None = None) -> None:
        self.profile = profile
        self._given = token
        self._lock = threading.Lock()
        self._asked: deque[float] = deque(maxlen=MOST_A_MINUTE)

    @cached_property
    def user(self) -> str:
        """The name of the user on the cluster."""
        found = self._token.user or string(self.get("/tokens/check", what="check your token"), "username")
        if not found:
            raise not_openpai(self.profile)
        return found

    def room(self) -> int:
        """Return how many requests may be made now for a run that is followed."""
        since = time.monotonic() - _MINUTE
        with self._lock:
            return MOST_A_MINUTE - sum(moment > since for moment in self._asked)

    def get(self, path: str, *, what: str, **query: str | int) -> Any:
        """Return the document at a path; `what` says for messages what is to be done."""
        return self.known(path, what=what, **query).document

    def known(self, path: str, *, what: str, **query: str | int) -> Known:
        """Return the document at a path with its tag. It is asked for again as far as that helps."""
        deadline, failures = Deadline(2 * SECONDS), 0
        while True:
            try:
                return self._known(HttpRequest("GET", _target(path, query)), what)
            except RequestError as error:
                failures += 1
                pause = error.pause or backoff(failures, _FIRST_PAUSE, _LONGEST_PAUSE)
                if not error.may_pass or failures > _MOST_RETRIES or not deadline.wait(pause):
                    raise

    def changed(self, path: str, known: Known, *, what: str, **query: str | int) -> Known | None:
        """Return the document at a path; None if it is as it was `known`. It is asked for once."""
        request = HttpRequest("GET", _target(path, query), {"If-None-Match": known.tag} if known.tag else {})
        found = self._known(request, what)
        return found if found.document is not None else None

    def once(self, path: str, *, what: str, **query: str | int) -> Any:
        """Return the document at a path, which is asked for once."""
        return self._known(HttpRequest("GET", _target(path, query)), what).document

    def put(self, path: str, document: Mapping[str, Any], *, what: str) -> None:
        """Change what is at a path."""
        self._ask(_with_json("PUT", _target(path, {}), document), what)

    def post(
        self, path: str, document: Mapping[str, Any] | None, *, what: str, anonymous: bool = False
    ) -> Any:
        """Return what the server answers to a request; an `anonymous` one is made without a token."""
        return self._document(
            self._ask(_with_json("POST", _target(path, {}), document), what, anonymous=anonymous)
        )

    def delete(self, path: str, *, what: str) -> None:
        """Delete what is at a path."""
        self._ask(HttpRequest("DELETE", _target(path, {})), what)

    def submit(self, job: str) -> None:
        """Submit the YAML of a job, once."""
        headers = {"Content-Type": "text/yaml; charset=utf-8"}
        self._ask(HttpRequest("POST", _target("/jobs", {}), headers, job.encode()), "submit the job")

    def info(self) -> Mapping[str, Any]:
        """Return what the server says of itself to everybody."""
        answer = self._ask(HttpRequest("GET", _target("/info", {})), "ask what it is", anonymous=True)
        return self._object(answer)

    def log_file(self, uri: str, method: str, first: int = 0, most: int = 1) -> Answer:
        """Return `most` bytes of a log file from the `first` on, by its URI in a list; no token is sent.

        The status is 200 or 206, 416 if there are none so far, 403 if the URI has expired, or 404.
        """
        headers = {"Range": f"bytes={first}-{first + most - 1}"} if method == "GET" else {}
        bounds = Bounds(_LOG_SECONDS, most + _MOST_OF_ERROR, _MOST_OF_ERROR)
        try:
            if uri.startswith(_NODE_LOGS) and uri.isascii() and uri.isprintable() and " " not in uri:
                return self._client.ask(HttpRequest(method, uri, headers), bounds)
            url = split_url(uri)
            if url is None or url.username is not None:
                raise not_openpai(self.profile)
            request = HttpRequest(method, target_of(url), headers)
            return ask_once(url, request, bounds, proxy=proxy_for(url), guarded=True)
        except NoAnswer as error:
            raise unreachable(self.profile, str(error), sent=True, may_pass=True) from None

    @cached_property
    def _token(self) -> Token:
        token = self._given or read_token(self.profile)
        hide([token.text])
        return token

    @cached_property
    def _client(self) -> Client:
        url, ca_file = split_url(self.profile.url), self.profile.ca_file
        try:
            proxy = proxy_for(url) if url else None
            trust = (lambda: client_context(ca_file)) if ca_file else system_trust
            return Client(self.profile.url, proxy=proxy, trust=trust)
        except OSError as error:
            why = f"the certificates in {ca_file} are of no use: {error.strerror}"
            raise RequestError(f"{self.profile.name}: {why}", sent=False) from None

    def _ask(self, request: HttpRequest, what: str, *, anonymous: bool = False) -> Answer:
        headers = {"User-Agent": "pai-runtime", "Accept": "application/json", **request.headers}
        if not anonymous:
            headers["Authorization"] = bearer(self._token.text)
        with self._lock:
            self._asked.append(time.monotonic())
        asked = HttpRequest(request.method, request.target, headers, request.body)
        try:
            answer = self._client.ask(asked, Bounds(SECONDS, _MOST_BYTES, _MOST_OF_ERROR))
        except NoAnswer as error:
            sent = not isinstance(error, NotConnected)
            raise unreachable(self.profile, str(error), sent=sent, may_pass=not error.permanent) from None
        if answer.status in _SUCCESS or answer.status == HTTPStatus.NOT_MODIFIED:
            return answer
        if answer.status == HTTPStatus.UNAUTHORIZED and not anonymous:
            why = refused(self.profile, self._token)
            raise RequestError(f"{self.profile.name}: {why}", status=answer.status)
        raise refusal(self.profile, what, answer)

    def _known(self, request: HttpRequest, what: str) -> Known:
        answer = self._ask(request, what)
        is_same = answer.status == HTTPStatus.NOT_MODIFIED
        return Known(None if is_same else self._document(answer), str(answer.headers["ETag"] or ""))

    def _document(self, answer: Answer) -> Any:
        try:
            return loads_untrusted(answer.body, _MOST_OBJECTS)
        except ValueError:
            raise not_openpai(self.profile) from None

    def _object(self, answer: Answer) -> Mapping[str, Any]:
        document = self._document(answer)
        if not isinstance(document, dict):
            raise not_openpai(self.profile)
        return document


def job_path(user: str, name: str, *below: str | int) -> str:
    """Return the path of a job of a user, or of what is below it."""
    return "/".join(
        ["/jobs", quote(f"{user}~{name}", safe="~"), *(quote(str(each), safe="") for each in below)]
    )


def _target(path: str, query: Mapping[str, str | int]) -> str:
    return f"{_PREFIX}{path}?{urlencode(query)}" if query else f"{_PREFIX}{path}"


def _with_json(method: str, target: str, document: Mapping[str, Any] | None) -> HttpRequest:
    if document is None:
        return HttpRequest(method, target)
    body = json.dumps(document).encode()
    return HttpRequest(method, target, {"Content-Type": "application/json"}, body)
