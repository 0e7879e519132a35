"""Certificates for servers of tests, and authorities that issue them."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, path: Path, *issuers: "Certificate") -> Path:
        """A file for a server: the key, the certificate, and those of its issuers that the server sends."""
        key = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path.write_bytes(key + self.pem + b"".join(issuer.pem for issuer in issuers))
        return path


def authority(name: str, issuer: Certificate | None = None) -> Certificate:
    """An authority, issued by another or by itself. Like those of many clusters, it has no key identifier."""
    return _issue(name, issuer, x509.BasicConstraints(ca=True, path_length=None))


def server_certificate(issuer: Certificate, hosts: Sequence[str], *, expired: bool = False) -> Certificate:
    """A certificate for a server at these IP addresses or names."""
    return _issue("server", issuer, x509.SubjectAlternativeName([_host(host) for host in hosts]), expired)


def client_certificate(issuer: Certificate, user: str) -> Certificate:
    """A certificate by which a user logs in."""
    return _issue(user, issuer, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _issue(
    name: str,
    issuer: Certificate | None,
    extension: x509.ExtensionType,
    expired: bool = False,  # noqa: FBT001, FBT002 - passed on
) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * _DAY)
        .not_valid_after(now - _DAY if expired else now + _DAY)
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .sign(issuer.key if issuer else key, hashes.SHA256())
    )
    return Certificate(certificate, key)
