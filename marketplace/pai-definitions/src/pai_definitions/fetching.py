"""Fetching of definition files from servers, with retries, and errors that say what to do."""

import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from pai_definitions.model import Unreachable
from pai_definitions.web import MOST_BYTES
from pai_document.url import origin, shown_url, split_url
from pai_network.answer import Answer, NoAnswer
from pai_network.authorization import bearer
from pai_network.deadline import Deadline
from pai_network.proxies import proxy_for
from pai_network.redirects import Received, followed
from pai_runtime import __version__
from pai_runtime.definitions import NoDefinition
from pai_runtime.host.locations import canonical
from pai_runtime.plugin.backoff import backoff

_TRIES: Final = 4
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_LENGTH: Final = re.compile("[0-9]{1,18}")


class Fetcher:
    """A client with a timeout of `seconds` per call, disabled if `offline`; `now`, `sleep` replace the clock.

    `refusal` returns why the content at a redirect's target may not be used, None if it may.
    """

    def __init__(
        self,
        *,
        refusal: Callable[[str], str | None] = lambda _: None,
        offline: bool = False,
        seconds: float = 60,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._refusal = refusal
        self._offline = offline
        self._seconds = seconds
        self._now = now
        self._sleep = sleep

    def get(self, url: str, *, token: str | None = None, most: int = MOST_BYTES) -> bytes:
        """Return the content at a URL. Raises `NoDefinition`, which never repeats the token."""
        if self._offline:
            raise Unreachable(f"{shown_url(url)}: not asked for, because this runs offline")
        headers = _headers(url, token)
        deadline = Deadline(self._seconds, self._now, self._sleep)
        failures = 0
        while True:
            failures += 1
            pause, answered = 0.0, False
            try:
                received = _received(url, headers, deadline, most)
                self._check(url, received.url)
                if not received.answer.may_pass:
                    return _content(url, received, has_token=token is not None)
                reason, answered = f"it answered {received.answer.status}", True
                pause = received.answer.pause
            except NoAnswer as error:
                reason = str(error)
                if error.permanent:
                    raise NoDefinition("definition-unavailable", f"{shown_url(url)}: {reason}") from None
            pause = max(pause, backoff(failures, _FIRST_PAUSE, _LONGEST_PAUSE))
            if failures == _TRIES or not deadline.wait(pause):
                advice = "try again later, or check the network and the proxy settings"
                raise Unreachable(f"{shown_url(url)}: {reason}; {advice}", answered=answered)

    def _check(self, url: str, led_to: str) -> None:
        if led_to != url and (reason := self._refusal(canonical(led_to))):
            raise NoDefinition("definition-refused", f"{shown_url(url)} redirects elsewhere: {reason}")


def _headers(url: str, token: str | None) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity", "User-Agent": f"pai-runtime/{__version__}"}
    if token is not None:
        try:
            headers["Authorization"] = bearer(token)
        except ValueError as error:
            raise NoDefinition("definition-forbidden", f"{shown_url(url)}: {error}") from None
    return headers


def _received(url: str, headers: Mapping[str, str], deadline: Deadline, most: int) -> Received:
    def ask(target: str, headers: Mapping[str, str]) -> Answer:
        try:
            return _answer(target, headers, deadline.left(), most)
        except NoAnswer as error:
            if target == url:
                raise
            raise NoAnswer(f"redirected to {shown_url(target)}: {error}", permanent=error.permanent) from None

    return followed(url, headers, ask, _may_lead)


def _answer(text: str, headers: Mapping[str, str], seconds: float, most: int) -> Answer:
    """One answer, and the whole of it if its status is 200; raises `NoAnswer`."""
    from pai_network.client import Bounds, HttpRequest, ask_once, target_of  # noqa: PLC0415 - slow

    url = split_url(text)
    if url is None:
        raise NoAnswer("it has no valid address", permanent=True)
    request = HttpRequest("GET", target_of(url), headers)
    answer = ask_once(url, request, Bounds(seconds, most), proxy=proxy_for(url), guarded=True)
    coding, transfer = (
        answer.headers.get(f"{name}-Encoding", "").lower() for name in ("Content", "Transfer")
    )
    if answer.status != HTTPStatus.OK:
        return answer
    if coding not in ("", "identity") or transfer not in ("", "chunked"):
        raise NoAnswer("its response is compressed, which was not asked for", permanent=True)
    if not transfer and not _LENGTH.fullmatch(answer.headers.get("Content-Length", "")):
        # It may have been cut.
        raise NoAnswer("its response does not say how long it is", permanent=True)
    return answer


def _may_lead(source: str, target: str) -> bool:
    """Return whether a redirect may be followed: never from HTTPS to HTTP."""
    url = split_url(target)
    return url is not None and (url.scheme == "https" or origin(source)[0] == "http")


def _content(url: str, received: Received, *, has_token: bool) -> bytes:
    """Return the body of a final answer. Raises `NoDefinition` according to its status."""
    status = received.answer.status
    if status == HTTPStatus.OK:
        return received.answer.body
    way = shown_url(url)
    if received.url != url:
        way += f": redirected to {shown_url(received.url)}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        advice = (
            "check that the token is valid and permits reading it"
            if has_token
            else "if it needs a token, configure one: pai-runtime marketplace add URL --token-file FILE"
        )
        raise NoDefinition("definition-forbidden", f"{way}: the server refuses access ({status}); {advice}")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise NoDefinition("no-such-definition", f"{way}: the server has no such file ({status})")
    raise NoDefinition("definition-unavailable", f"{way}: expected status 200, found {status}")
