"""What an operator decides about a server."""

from typing import Final

from pai_runtime.task.record import record

MOST_CONTENT: Final = 256 * 1024
"""Maximum size of a definition file or job that is published, in bytes."""
MOST_BODY: Final = 4 * MOST_CONTENT
"""Maximum size of the body of a request, in bytes: content in JSON, with its description."""


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
