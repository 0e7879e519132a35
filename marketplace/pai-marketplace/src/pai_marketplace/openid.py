"""OpenID Connect: people sign in at their organisation's provider, by the authorization code flow with PKCE.

What the provider says of a person is believed only from its ID token, whose signature, issuer, audience, time
and nonce are checked, and from its userinfo endpoint about the same subject.
"""

import hmac
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from pai_document.printable import printable
from pai_document.url import is_this_machine, split_url
from pai_marketplace.errors import Invalid, NotSignedIn, Unavailable
from pai_marketplace.settings import OpenId
from pai_marketplace.viewer import Identity
from pai_network.answer import NoAnswer
from pai_network.authorization import basic, bearer
from pai_network.client import Bounds, HttpRequest, ask_once, target_of
from pai_network.proxies import proxy_for
from pai_task.record import record

_ALGORITHMS: Final = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
]
"""Signatures by keys that only the provider has: neither ``none``, nor those by a secret that we have too."""
_BOUNDS: Final = Bounds(seconds=10, most=1 << 20, most_of_error=1 << 16)
_LEEWAY: Final = 60
"""Seconds by which the provider's clock may differ."""
_METADATA_SECONDS: Final = 3600
_LONGEST_ERROR: Final = 100


@record(frozen=True)
class Begun:
    """A sign-in that a browser has begun: what its end has to know, and where the person wanted to go."""

    state: str
    nonce: str
    verifier: str
    next: str


def begin(next_: str) -> Begun:
    """Begin a sign-in."""
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return Begun(state, nonce, verifier, next_)


class Provider:
    """The provider of an operator. Raises `Invalid` for an issuer that is no URL with https."""

    def __init__(self, settings: OpenId) -> None:
        self._settings = settings
        self._lock = Lock()
        self._metadata: Mapping[str, Any] = {}
        self._metadata_until = 0.0
        _checked(settings.issuer)

    def address(self, begun: Begun) -> str:
        """Return where a browser signs in. Raises `Unavailable`."""
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._settings.redirect_uri,
            "scope": "openid profile groups",
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": _unpadded(sha256(begun.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        at = self._endpoint("authorization_endpoint")
        return f"{at}{'&' if '?' in at else '?'}{urlencode(query)}"

    def identity(self, begun: Begun, answer: Mapping[str, str]) -> Identity:
        """Return who has signed in, from the parameters with which the provider has sent the browser back.

        Raises `NotSignedIn`, or `Unavailable`.
        """
        self._check_answer(begun, answer)
        tokens = self._tokens(answer.get("code", ""), begun.verifier)
        claims = self._claims(str(tokens.get("id_token", "")), begun.nonce)
        claims = {**self._user_info(str(tokens.get("access_token", "")), claims["sub"]), **claims}
        names = (claims.get(each) for each in ("preferred_username", "email", "sub"))
        groups = claims.get("groups")
        return Identity(
            f"{self._settings.issuer} {claims['sub']}",
            next(each for each in names if isinstance(each, str) and each),
            frozenset(map(str, groups)) if isinstance(groups, list) else None,
        )

    def _check_answer(self, begun: Begun, answer: Mapping[str, str]) -> None:
        if not hmac.compare_digest(begun.state.encode(), answer.get("state", "").encode("utf-8", "replace")):
            raise NotSignedIn("this sign-in was not begun in this browser, or has ended; begin it again")
        named = self._known("authorization_response_iss_parameter_supported") is True
        if answer.get("iss", "" if named else self._settings.issuer) != self._settings.issuer:
            raise NotSignedIn("the answer is from another provider")
        if error := answer.get("error"):
            raise NotSignedIn(f"the provider has signed nobody in: {printable(error[:_LONGEST_ERROR])}")

    def _tokens(self, code: str, verifier: str) -> Mapping[str, Any]:
        ours = self._settings
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": ours.redirect_uri}
        form |= {"client_id": ours.client_id, "code_verifier": verifier}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        methods = self._known("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if ours.client_secret and "client_secret_basic" in methods:
            # RFC 6749, 2.3.1: both are encoded as in forms first.
            headers["Authorization"] = basic(quote(ours.client_id, ""), quote(ours.client_secret, ""))
        elif ours.client_secret:
            form["client_secret"] = ours.client_secret
        return _object("POST", self._endpoint("token_endpoint"), headers, urlencode(form).encode())

    def _claims(self, id_token: str, nonce: str) -> dict[str, Any]:
        """Return what an ID token says, after all checks of OpenID Connect Core, 3.1.3.7."""
        keys = KeySet(list(_keys(_object("GET", self._endpoint("jwks_uri")))))
        expected = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            azp={"value": self._settings.client_id},
            nonce={"essential": True, "value": nonce},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )
        try:
            claims = jwt.decode(id_token, keys, algorithms=_ALGORITHMS).claims
            expected.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            why = getattr(error, "claim", None) or type(error).__name__
            raise NotSignedIn(f"the provider's token is not valid: {why}") from None
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise NotSignedIn("the provider's token names nobody")
        return dict(claims)

    def _user_info(self, access_token: str, subject: str) -> Mapping[str, Any]:
        if not self._known("userinfo_endpoint"):
            return {}
        try:
            headers = {"Authorization": bearer(access_token)}
        except ValueError:
            raise NotSignedIn("the provider has given no access token") from None
        found = _object("GET", self._endpoint("userinfo_endpoint"), headers)
        if found.get("sub") != subject:
            raise NotSignedIn("the provider speaks of two people")
        return found

    def _endpoint(self, name: str) -> str:
        url = self._known(name)
        if not isinstance(url, str):
            raise Unavailable(f"the provider has no {name}")
        return url

    def _known(self, field: str) -> Any:
        """Return a field of the provider's metadata, which are asked for now and then."""
        issuer = self._settings.issuer
        with self._lock:
            if time.monotonic() > self._metadata_until:
                found = _object("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if found.get("issuer") != issuer:
                    raise Unavailable(f"expected a provider that calls itself {issuer}, as the operator does")
                self._metadata, self._metadata_until = found, time.monotonic() + _METADATA_SECONDS
            return self._metadata.get(field)


def _keys(document: Mapping[str, Any]) -> Any:
    """Yield the keys of a provider that sign, of the kinds that we know."""
    for each in document.get("keys") or ():
        if isinstance(each, dict) and each.get("use", "sig") == "sig" and each.get("kty") != "oct":
            try:
                yield from KeySet.import_key_set({"keys": [each]}).keys
            except (JoseError, ValueError, TypeError, KeyError):
                continue


def _object(
    method: str, at: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> Mapping[str, Any]:
    """Return the JSON object that the provider answers. Raises `Unavailable`."""
    url = _checked(at)
    asked = HttpRequest(method, target_of(url), {"Accept": "application/json", **(headers or {})}, body)
    try:
        answer = ask_once(url, asked, _BOUNDS, proxy=proxy_for(url))
    except NoAnswer as error:
        raise Unavailable(f"the provider does not answer: {error}") from None
    if method == "POST" and answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED):
        raise NotSignedIn("the provider does not confirm this sign-in; begin it again")
    try:
        found = json.loads(answer.body) if answer.status == HTTPStatus.OK else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unavailable(f"expected a JSON object from the provider, found status {answer.status}")
    return found


def _checked(text: str) -> Any:
    """Return a URL of the provider, to which secrets may be sent. Raises `Invalid`."""
    url = split_url(text)
    if url is None or not (url.scheme == "https" or is_this_machine(url.hostname or "")):
        raise Invalid("expected the URL of an OpenID provider, with https")
    return url


def _unpadded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
