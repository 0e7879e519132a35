"""What an operator decides about a server."""

from typing import Final

from pai_task.record import record

MOST_CONTENT: Final = 256 * 1024
"""Maximum size of a definition file or job that is published, in bytes."""
MOST_BODY: Final = 4 * MOST_CONTENT
"""Maximum size of the body of a request, in bytes: content in JSON, with its description."""


CALLBACK: Final = "/sign-in/openid/callback"
"""The path to which a provider sends people back."""


@record(frozen=True)
class OpenId:
    """The OpenID provider by which people sign in, and what this marketplace is to it.

    `url` is where people reach the marketplace. Members of the group `admins` are admins.
    """

    issuer: str
    client_id: str
    url: str
    client_secret: str = ""
    admins: str = ""

    @property
    def redirect_uri(self) -> str:
        """The address that the provider has to know for this client."""
        return self.url.rstrip("/") + CALLBACK


@record(frozen=True)
class Settings:
    """`review`: versions are seen by others only once a reviewer has approved them.

    `anonymous`: whoever is not signed in may read what is public. `writes_per_minute` and
    `reads_per_minute` limit the requests of one address. `secure_cookies`: browsers send
    the session over HTTPS only; off where the server is reached by plain HTTP. `trusted_proxies` are the
    addresses of the proxies whose ``X-Forwarded-For`` is believed, with commas between them.
    """

    database: str
    review: bool = False
    anonymous: bool = True
    writes_per_minute: int = 120
    reads_per_minute: int = 6000
    secure_cookies: bool = False
    trusted_proxies: str = ""
    openid: OpenId | None = None
