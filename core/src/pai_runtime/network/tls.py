"""Which certificates a TLS client trusts."""

import ssl
from functools import cache
from pathlib import Path


def client_context(certificates: Path | None = None) -> ssl.SSLContext:
    """What trusts the certificates in this file alone; without a file, those that the system trusts.

    As Go's clients do, and so those of Docker and Kubernetes: each certificate there is trusted, also one
    that another has issued, and none needs a key identifier. Those of many private authorities have none,
    and Python 3.13 and later ask for it. Raises `OSError`.
    """
    context = ssl.create_default_context(cafile=certificates)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    return context


@cache
def system_trust() -> ssl.SSLContext:
    """What this system trusts. Once for all requests: reading the certificates takes some 50 ms."""
    return client_context()
