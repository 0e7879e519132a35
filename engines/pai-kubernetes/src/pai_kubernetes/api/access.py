"""Access to a cluster: its server, the trusted certificates, and the credentials."""

import ssl
from dataclasses import dataclass, field
from typing import Protocol

from pai_network.tls import EncryptedKey, client_context, show_certificate, system_trust
from pai_runtime.engine import ClusterError


@dataclass(frozen=True)
class Login:
    """The proof of identity of a request: a header, a client certificate with its key (both PEM), or both.

    ``repr`` shows none of it. `expires` is in seconds since 1970; None if unknown.
    """

    authorization: str = field(default_factory=str, repr=False)
    certificate: bytes = field(default_factory=bytes, repr=False)
    key: bytes = field(default_factory=bytes, repr=False)
    expires: float | None = None


class Credentials(Protocol):
    """A source of logins, which many threads may use at once."""

    def login(self) -> Login:
        """Return a login that is valid now, as far as that is known. Raises `ClusterError`."""

    def renewed(self, refused: Login) -> Login:
        """Return another login after the server has refused this one; the same one if there is no other."""


@dataclass(frozen=True)
class Fixed:
    """A login that never changes."""

    fixed: Login = field(default_factory=Login)

    def login(self) -> Login:
        """Return the login; see `Credentials.login`."""
        return self.fixed

    def renewed(self, refused: Login) -> Login:  # noqa: ARG002 - there is no other
        """Return the same login; see `Credentials.renewed`."""
        return self.fixed


@dataclass(frozen=True)
class Access:
    """The URL of a cluster's server, and how to connect to it.

    `origin` says where all this is configured, for messages. `authority` has the trusted certificates (PEM);
    empty means those of the system, and with `insecure` all are trusted. `server_name` is the name in the
    server's certificate if it differs from the URL's host. `proxy` is the URL of an HTTP proxy; empty means
    as in the environment.
    """

    server: str
    user: str
    origin: str
    namespace: str = "default"
    authority: bytes = b""
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""
    credentials: Credentials = field(default_factory=Fixed)


def tls_context(access: Access, login: Login) -> ssl.SSLContext:
    """Return the TLS context for connections to the server.

    Raises `ClusterError` for unusable certificates.
    """
    if not (access.authority or access.insecure or login.certificate):
        return system_trust()
    try:
        context = client_context(access.authority or None)
    except OSError:
        raise ClusterError(
            f"{access.origin}: the cluster's certificate authority is no certificate"
        ) from None
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if login.certificate:
        try:
            show_certificate(context, login.certificate, login.key)
        except EncryptedKey:
            message = f"the key of user '{access.user}' is encrypted, which is not supported"
            raise ClusterError(f"{access.origin}: {message}") from None
        except OSError:
            message = f"the client certificate of user '{access.user}', or its key, is of no use"
            raise ClusterError(f"{access.origin}: {message}") from None
    return context
