"""A small client of the Kubernetes API, which reads one object with a pod's credentials.

The official client does the same; its import alone takes almost three times as long (./dev bench kubernetes).
Pods without a Framework load this module, but no client.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pai_document.printable import printable
from pai_network.answer import NoAnswer
from pai_task import fast_json, paths
from pai_task.regular_file import open_regular

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from pai_network.answer import Answer

SERVICE_ACCOUNT = Path(paths.SERVICE_ACCOUNT)

MOST_BYTES = 32 << 20
"""Maximum size of an object; by default, etcd keeps none of more than 1.5 MiB."""

_MOST_OF_TOKEN = 1 << 16
_MOST_SAID = 300
_MOST_CONTAINERS = 1000
"""Maximum number of objects and lists in a Status."""


class ApiError(Exception):
    """The exception for an object that could not be read.

    `status` is that of the answer, 0 without one. `permanent` means that a retry is useless; otherwise
    `pause` is how many seconds the server asks to wait before it.
    """

    def __init__(self, message: str, *, status: int = 0, permanent: bool = True, pause: float = 0) -> None:
        super().__init__(message)
        self.status = status
        self.permanent = permanent
        self.pause = pause


def get_object(
    environment: Mapping[str, str],
    path: str,
    left: Callable[[], float],
    service_account: Path = SERVICE_ACCOUNT,
) -> bytes:
    """Return the JSON of the object at a path of the API, unparsed. Raises `ApiError`.

    With a token in the folder `service_account`, the server is ``KUBERNETES_SERVICE_HOST``, otherwise,
    without any login, ``KUBE_APISERVER_ADDRESS``. Token and certificates are read again each time, since they
    rotate. `left` returns the seconds left for the request. Proxies are not used.
    """
    from pai_network.client import Bounds, Client, HttpRequest  # noqa: PLC0415 - see the top

    token = _token(service_account / "token")
    address = _address(environment, has_token=token is not None)
    headers = {"Accept": "application/json", "User-Agent": "pai-runtime"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    certificates = service_account / "ca.crt"
    # A token goes to the cluster's own server only.
    trusted = certificates if token is not None or certificates.exists() else None
    try:
        client = Client(address, trust=lambda: _context(trusted))
        with closing(client):
            answer = client.ask(HttpRequest("GET", path, headers), Bounds(left(), MOST_BYTES, MOST_BYTES))
    except NoAnswer as error:
        raise ApiError(f"API server {address}: {error}", permanent=error.permanent) from None
    if answer.status != 200:  # noqa: PLR2004 - OK
        raise _refusal(address, answer, token)
    if not answer.body:  # what http.client makes of headers that end in the middle
        raise ApiError(f"API server {address}: the response is empty", permanent=False)
    return answer.body


def _token(file: Path) -> str | None:
    """Read the token; None if there is no such file. Raises `ApiError` if it is invalid."""
    try:
        with open_regular(file) as opened:
            text = opened.read(_MOST_OF_TOKEN).decode().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeError) as error:
        raise ApiError(f"{file} cannot be read: {_in_short(error)}") from None
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ApiError(f"{file}: expected the token of a service account, found something else")
    return text


def _address(environment: Mapping[str, str], *, has_token: bool) -> str:
    if not has_token:
        return _parsed("KUBE_APISERVER_ADDRESS", environment.get("KUBE_APISERVER_ADDRESS", ""))
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    name = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"
    return _parsed(name, f"https://{f'[{host}]' if ':' in host else host}:{port}" if host and port else "")


def _parsed(variable: str, value: str) -> str:
    """Parse an address as client-go does; without a scheme it is http. Raises `ApiError`."""
    if not value:
        raise ApiError(
            f"no API server is known: {variable} is not set. Mount the token of the pod's service account"
            " (automountServiceAccountToken), or set KUBE_APISERVER_ADDRESS"
        )
    expected = f"{variable}: expected a URL such as https://10.0.0.1:6443"
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        bad_port = parts.port == 0
    except ValueError:
        raise ApiError(expected) from None
    odd = bad_port or parts.username is not None or parts.query or parts.fragment or not value.isprintable()
    if parts.scheme not in ("http", "https") or not parts.hostname or odd:
        raise ApiError(expected)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _context(certificates: Path | None) -> ssl.SSLContext:
    from pai_network.tls import client_context  # noqa: PLC0415 - as above

    try:
        return client_context(certificates)
    except OSError as error:
        raise ApiError(f"the certificates in {certificates} cannot be used: {_in_short(error)}") from None


def _refusal(address: str, answer: Answer, token: str | None) -> ApiError:
    from http.client import responses  # noqa: PLC0415 - as above

    status = answer.status
    phrase = f"{status} {responses.get(status, '')}".strip()
    return ApiError(
        f"API server {address} answers {phrase}{_said(answer.body, token)}",
        status=status,
        permanent=not answer.may_pass,
        pause=answer.pause if answer.may_pass else 0,
    )


def _said(body: bytes, token: str | None) -> str:
    """Return the ``message`` of a Status in a body, for people; empty if there is none."""
    try:
        words = fast_json.loads_untrusted(body, _MOST_CONTAINERS)["message"]
    except (ValueError, LookupError, TypeError):
        return ""
    if not isinstance(words, str) or not words:
        return ""
    shown = words.replace(token, "******") if token else words
    return f": {printable(shown[:_MOST_SAID])}"


def _in_short(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
