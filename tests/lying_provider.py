"""An OpenID provider that says what a test wants it to say."""

import json
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from tests.local_server import LocalServer

KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "one"})
"""A key that the provider does not have, of the same name."""


class LyingProvider(LocalServer):
    """`claims` are those of its ID tokens, and `user_info` what it says beside them; both are true at first.

    An ID token is `token` if that is not empty, else made of `claims`, with `header`, by `key`.
    """

    def __init__(self, client: str) -> None:
        super().__init__(_Handler)
        self.client = client
        self.token = ""
        self.key: RSAKey | OctKey = KEY
        self.header = {"alg": "RS256", "kid": "one"}
        now = int(time.time())
        self.claims: dict[str, Any] = {
            "iss": self.url,
            "aud": client,
            "sub": "1",
            "iat": now,
            "exp": now + 300,
        }
        self.user_info: dict[str, Any] = {"sub": "1", "preferred_username": "dora", "groups": ["team"]}
        self.metadata = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            **{f"{name}_endpoint": f"{self.url}/{name}" for name in ("token", "userinfo")},
            "jwks_uri": f"{self.url}/keys",
        }

    def answer(self, path: str) -> dict[str, Any]:
        if path == "/keys":
            return {"keys": [{"kty": "strange"}, KEY.as_dict(private=False)]}
        if path == "/userinfo":
            return self.user_info
        if path == "/token":
            algorithms = [self.header["alg"]]
            made = self.token or jwt.encode(self.header, self.claims, self.key, algorithms=algorithms)
            return {"id_token": made, "access_token": "access", "token_type": "Bearer"}
        return self.metadata


class _Handler(BaseHTTPRequestHandler):
    server: LyingProvider

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = json.dumps(self.server.answer(self.path)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - as the server calls it

    def log_message(self, *_: object) -> None:
        pass
