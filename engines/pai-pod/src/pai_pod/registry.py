"""Queries whether a registry has an image, by version 2 of its API with both ways to authenticate.

https://github.com/opencontainers/distribution-spec, and https://distribution.github.io/distribution/spec/auth/token/.
"""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from pai_document.url import is_this_machine, origin
from pai_network.answer import Answer, NoAnswer
from pai_network.authorization import basic
from pai_pod.challenges import Challenge, parse_challenges
from pai_pod.image_reference import DOCKER_HUB, ImageReference
from pai_pod.registry_request import may_lead, request
from pai_task.fast_json import loads_untrusted
from pai_task.record import field, record

MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
    "application/vnd.docker.distribution.manifest.v1+json",
)

_SOON: Final = 1.0
"""Seconds after which a refusal may be retried."""

_MOST_CONTAINERS: Final = 1000
"""Maximum number of objects and lists in an error or token response."""

_DOCKER_HUB_HOST = "registry-1.docker.io"
_TOKEN = re.compile("[!-~]{1,65536}")


class Unclear(Exception):
    """The exception for a registry that does not say whether an image exists; the message says what it said.

    `again` is after how many seconds, at least, it may say more; None if never.
    """

    def __init__(self, message: str, again: float | None = None) -> None:
        super().__init__(message)
        self.again = again


class Refused(Unclear):
    """The exception for credentials that are wrong, or do not allow pulling the image."""


@record(frozen=True)
class Credentials:
    """The credentials of a user of a registry."""

    username: str
    password: str = field(repr=False)

    @property
    def authorization(self) -> str:
        """The value of the ``Authorization`` header."""
        return basic(self.username, self.password)


class ImageQuestion:
    """A query to a registry about one image, authenticated or anonymous, within the seconds `left`."""

    def __init__(
        self, image: ImageReference, credentials: Credentials | None, left: Callable[[], float]
    ) -> None:
        self._image = image
        self._credentials = credentials
        self._left = left
        self._authorization: str | None = None
        host = _DOCKER_HUB_HOST if image.registry == DOCKER_HUB else image.registry
        scheme = "http" if is_this_machine(_without_port(host)) else "https"
        self._base = f"{scheme}://{host}/v2/"
        self._url = f"{self._base}{image.repository}/manifests/{image.manifest}"

    def exists(self) -> bool:
        """Return whether the image exists, if that is certain. Raises `Unclear`."""
        if self._credentials:
            self._log_in()
        # Docker Hub counts each GET as a pull, and no HEAD; but only a body says what an error means.
        answer = self._ask("HEAD")
        if answer.status not in (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED) and not answer.may_pass:
            answer = self._ask("GET")
        if answer.status == HTTPStatus.OK:
            if answer.headers.get_content_type() not in MANIFEST_TYPES:
                raise Unclear("its response is not the manifest of an image")
            return True
        if answer.status == HTTPStatus.NOT_FOUND and self._is_certain(answer):
            return False
        raise self._fault(answer)

    def _log_in(self) -> None:
        """Authenticate first, as Docker does: some registries hide private images from anonymous users."""
        answer = self._send("GET", self._base, None)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._authorization = self._authorize(answer)
        elif answer.may_pass:
            raise self._fault(answer)

    def _is_certain(self, answer: Answer) -> bool:
        """Return whether "not found" is reliable: a registry may hide images from anonymous users."""
        codes = _error_codes(answer)
        is_shown = bool(self._credentials) or self._authorization is None
        return "MANIFEST_UNKNOWN" in codes or ("NAME_UNKNOWN" in codes and is_shown)

    def _ask(self, method: str) -> Answer:
        answer = self._send(method, self._url, self._authorization)
        if answer.status == HTTPStatus.UNAUTHORIZED and self._authorization is None:
            self._authorization = self._authorize(answer)
            answer = self._send(method, self._url, self._authorization)
        return answer

    def _authorize(self, answer: Answer) -> str:
        """Return the ``Authorization`` header that the registry asks for. Raises `Unclear`."""
        challenges = {
            challenge.scheme: challenge
            for challenge in parse_challenges(answer.headers.get_all("WWW-Authenticate") or ())
        }
        if "bearer" in challenges:
            return f"Bearer {self._token(challenges['bearer'])}"
        if "basic" not in challenges:
            raise Unclear("expected it to ask for Bearer or Basic authentication, found neither")
        if self._credentials is None:
            raise self._fault(answer)
        return self._credentials.authorization

    def _token(self, challenge: Challenge) -> str:
        """Return a token of the registry's token service for this image alone. Raises `Unclear`."""
        realm = challenge.parameters.get("realm", "")
        if not may_lead(self._url, realm):
            raise Unclear(
                "its token service is at an address that cannot be trusted (expected https, not this machine)"
            )
        query = {"scope": f"repository:{self._image.repository}:pull"}
        if "service" in challenge.parameters:
            query["service"] = challenge.parameters["service"]
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        answer = self._send("GET", url, self._credentials.authorization if self._credentials else None)
        if answer.status != HTTPStatus.OK:
            raise self._fault(answer)
        found = _json_object(answer)
        token = found.get("token") or found.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise Unclear("its token service issued no token")
        return token

    def _send(self, method: str, url: str, authorization: str | None) -> Answer:
        accept = ", ".join(MANIFEST_TYPES) if url == self._url else "application/json"
        headers = {"Accept": accept, "User-Agent": "pai-runtime"}
        if authorization:
            headers["Authorization"] = authorization
        try:
            received = request(method, url, headers, self._left)
        except NoAnswer as error:
            raise Unclear(str(error)) from None
        refused = received.answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        if refused and origin(received.url) != origin(url):
            # Which has not seen the credentials, and is not to see them.
            raise Unclear(f"it redirected to a server that answered {received.answer.status}")
        return received.answer

    def _fault(self, answer: Answer) -> Unclear:
        """Return the exception for an answer that is neither yes nor no."""
        # A 403 may be a firewall's, too; what a registry denies it says in its own words.
        denied = answer.status == HTTPStatus.FORBIDDEN and _error_codes(answer) & {"DENIED", "UNAUTHORIZED"}
        if answer.status == HTTPStatus.UNAUTHORIZED or denied:
            if self._credentials:
                # Registries, Docker Hub above all, answer so now and then without a reason.
                return Refused(f"it answered {answer.status}", _SOON)
            return Unclear(
                f"it answered {answer.status}; if the image is private, the job's dockerimage needs an auth"
                " with username, password and registryuri"
            )
        return Unclear(f"it answered {answer.status}", answer.pause if answer.may_pass else None)


def _without_port(host: str) -> str:
    """Return the host of a registry without port, and an IPv6 address without brackets."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _error_codes(answer: Answer) -> set[str]:
    """Return the codes of the errors that a registry lists."""
    errors = _json_object(answer).get("errors")
    if not isinstance(errors, list):
        return set()
    codes = (error.get("code") for error in errors if isinstance(error, dict))
    return {code for code in codes if isinstance(code, str)}


def _json_object(answer: Answer) -> dict[str, Any]:
    try:
        value = loads_untrusted(answer.body, _MOST_CONTAINERS)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
