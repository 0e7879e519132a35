"""Canaille, an OpenID provider with a person: its PORT, and the ADDRESS that it may send people back to.

A program of its own environment, which tests start: nothing here imports it.
"""

# mypy: ignore-errors

import sys

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from joserfc.jwk import JWKRegistry
from werkzeug.serving import make_server

PORT, ADDRESS = int(sys.argv[1]), sys.argv[2]
key = JWKRegistry.generate_key("RSA", 2048)
key.ensure_kid()
app = create_app(
    config={
        "SECRET_KEY": "of a test",
        "PREFERRED_URL_SCHEME": "http",
        "SERVER_NAME": f"localhost:{PORT}",
        "ENV_FILE": None,
        "WTF_CSRF_ENABLED": False,
        "CANAILLE": {
            "DATABASE": "memory",
            "JAVASCRIPT": False,
            "ACL": {"DEFAULT": {"PERMISSIONS": ["use_oidc"]}},
        },
        "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True)], "TRUSTED_DOMAINS": ["localhost"]},
    }
)
with app.app_context():
    person = models.User(
        user_name="dora",
        formatted_name="Dora",
        family_name="D",
        emails=["dora@example.org"],
        password="a long password",
    )
    Backend.instance.save(person)
    for name in ("team", "admins", "elsewhere"):
        Backend.instance.save(models.Group(members=[person], display_name=name))
    client = models.Client(
        client_id="market",
        client_secret="of the market",
        client_name="Market",
        client_uri="http://localhost",
        redirect_uris=[ADDRESS],
        scope=["openid", "profile", "groups"],
        grant_types=["authorization_code"],
        response_types=["code"],
        token_endpoint_auth_method="client_secret_basic",
    )
    Backend.instance.save(client)
    client.audience = [client]
    Backend.instance.save(client)
server = make_server("localhost", PORT, app, threaded=True)
print("ready", flush=True)  # noqa: T201 - what starts it waits for it
server.serve_forever()
