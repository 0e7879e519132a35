"""The certificates that TLS clients trust, and those that they show."""

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from pai_task.memfd import ScratchFile


class EncryptedKey(Exception):
    """The exception for an encrypted key of a certificate, for whose password nobody is to be asked."""


def client_context(certificates: Path | bytes | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates in a file, or in its content (PEM), alone.

    Without any, it trusts those of the system. As in Go's clients, and so in those of Docker and Kubernetes,
    each certificate there is trusted, also one that another has issued, and none needs a key identifier.
    Those of many private authorities have none, and Python 3.13 and later ask for it. Raises `OSError`.
    """
    if isinstance(certificates, bytes):
        with _in_memory(certificates) as path:
            context = ssl.create_default_context(cafile=path)
    else:
        context = ssl.create_default_context(cafile=certificates)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Have connections show a client certificate with its key, both PEM.

    Raises `EncryptedKey`, or `OSError` for what is of no use.
    """
    with _in_memory(certificate) as certificate_path, _in_memory(key) as key_path:
        context.load_cert_chain(certificate_path, key_path, password=_no_password)


@cache
def system_trust() -> ssl.SSLContext:
    """Return the system's TLS context, cached, since reading the certificates takes some 50 ms."""
    return client_context()


@contextmanager
def _in_memory(data: bytes) -> Iterator[Path]:
    """Yield a path for functions that take only paths; the data is on no disk, and gone afterwards."""
    with closing(ScratchFile()) as file:
        file.write(data)
        yield Path(f"/proc/self/fd/{file.fd}")


def _no_password() -> str:
    raise EncryptedKey
