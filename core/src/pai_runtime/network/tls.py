"""The certificates that TLS clients trust."""

import ssl
from functools import cache
from pathlib import Path


def client_context(certificates: Path | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates in a file alone; without a file, those of the system.

    As in Go's clients, and so in those of Docker and Kubernetes, each certificate there is trusted, also one
    that another has issued, and none needs a key identifier. Those of many private authorities have none, and
    Python 3.13 and later ask for it. Raises `OSError`.
    """
    context = ssl.create_default_context(cafile=certificates)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    return context


@cache
def system_trust() -> ssl.SSLContext:
    """Return the system's TLS context, cached, since reading the certificates takes some 50 ms."""
    return client_context()
