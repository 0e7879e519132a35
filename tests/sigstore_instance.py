"""An instance of Sigstore, with keys of its own, that attests files as a workflow of a repository does.

The public one attests for workflows of public forges alone. What this one makes, the real library verifies
in full: the chain of certificates, the promise of the log of certificates, the signature, and the entry in
the transparency log, with its proof, checkpoint and promise.
"""

import base64
import datetime as dt
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

WORKFLOW = "https://github.com/example/pai-tracker/.github/workflows/release.yml"
REF = "refs/tags/v1.0"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

_PAYLOAD = "application/vnd.in-toto+json"
_FULCIO = "1.3.6.1.4.1.57264.1."
_PROMISES = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
SIGNED = _BEGAN + dt.timedelta(days=30)
"""When certificates begin, which end ten minutes later, and what they sign is logged."""


class SigstoreInstance:
    """An authority for certificates of workflows, the log of those, and a transparency log."""

    def __init__(self) -> None:
        self._ca_key, self._ct_key, self._log_key = (_key() for _ in range(3))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
        usage = x509.KeyUsage(**{**_NO_USAGES, "key_cert_sign": True})
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._ca_key.public_key())
        self._ca = (
            x509.CertificateBuilder(name, name, self._ca_key.public_key(), x509.random_serial_number())
            .not_valid_before(_BEGAN)
            .not_valid_after(_BEGAN + dt.timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._ca_key, hashes.SHA256())
        )

    def write_trusted_root(self, path: Path) -> Path:
        """The file by which what this instance attests is verified."""
        start = {"start": _BEGAN.isoformat().replace("+00:00", "Z")}
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_log(self._log_key, start)],
            "ctlogs": [_log(self._ct_key, start)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "example", "commonName": "authority of a test"},
                    "uri": "https://authority.example",
                    "certChain": {"certificates": [{"rawBytes": _text(_der(self._ca))}]},
                    "validFor": start,
                }
            ],
            "timestampAuthorities": [],
        }
        path.write_text(json.dumps(root))
        return path

    def attest(  # noqa: PLR0913 - each is what one attack changes
        self,
        name: str,
        sha256: str,
        workflow: str = WORKFLOW,
        *,
        repository: str | None = None,
        issuer: str = "https://token.actions.githubusercontent.com",
        predicate: str | None = None,
        logged_after: dt.timedelta = dt.timedelta(minutes=1),
        signed_by: ec.EllipticCurvePrivateKey | None = None,
        promised_by: "SigstoreInstance | None" = None,
        logged_by: "SigstoreInstance | None" = None,
    ) -> dict[str, Any]:
        """An attestation of a file (PEP 740) by a workflow; the options make it another than it seems."""
        from pypi_attestations import AttestationType  # noqa: PLC0415 - slow, and each worker of the tests would

        key = _key()
        claims = {
            8: issuer,
            12: repository or workflow.partition("/.github/")[0],
            13: COMMIT,
            14: REF,
            18: f"{workflow}@{REF}",
        }
        certificate = self._certificate(key, claims, (promised_by or self)._ct_key)
        subject = {"name": name, "digest": {"sha256": sha256}}
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [subject],
            "predicateType": predicate or AttestationType.PYPI_PUBLISH_V1.value,
            "predicate": None,
        }
        payload = json.dumps(statement).encode()
        signed = b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)
        signature = _sign(signed_by or key, signed)
        entry = (logged_by or self)._entry(payload, signature, certificate, SIGNED + logged_after)
        return {
            "version": 1,
            "verification_material": {
                "certificate": _text(_der(certificate)),
                "transparency_entries": [entry],
            },
            "envelope": {"statement": _text(payload), "signature": _text(signature)},
        }

    def _certificate(
        self, key: ec.EllipticCurvePrivateKey, claims: dict[int, str], ct_key: ec.EllipticCurvePrivateKey
    ) -> x509.Certificate:
        usage = x509.KeyUsage(**{**_NO_USAGES, "digital_signature": True})
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca_key.public_key())
        name = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(claims[18])])
        builder = (
            x509.CertificateBuilder(
                self._ca.subject, x509.Name([]), key.public_key(), x509.random_serial_number()
            )
            .not_valid_before(SIGNED)
            .not_valid_after(SIGNED + dt.timedelta(minutes=10))
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(authority, critical=False)
            .add_extension(name, critical=True)
        )
        for number, value in claims.items():
            claim = x509.UnrecognizedExtension(
                x509.ObjectIdentifier(f"{_FULCIO}{number}"), _utf8_string(value)
            )
            builder = builder.add_extension(claim, critical=False)
        before = builder.sign(self._ca_key, hashes.SHA256()).tbs_certificate_bytes
        time = int(SIGNED.timestamp() * 1000)
        issuer = hashlib.sha256(_public(self._ca_key)).digest()
        tbs = struct.pack("!I", len(before))[1:] + before
        promised = struct.pack("!BBQH", 0, 0, time, 1) + issuer + tbs + bytes(2)
        signature = _sign(ct_key, promised)
        log = hashlib.sha256(_public(ct_key)).digest()
        promise = struct.pack("!B32sQHBBH", 0, log, time, 0, 4, 3, len(signature)) + signature
        listed = struct.pack("!HH", len(promise) + 2, len(promise)) + promise
        promises = x509.UnrecognizedExtension(_PROMISES, _der_value(4, listed))
        return builder.add_extension(promises, critical=False).sign(self._ca_key, hashes.SHA256())

    def _entry(
        self, payload: bytes, signature: bytes, certificate: x509.Certificate, time: dt.datetime
    ) -> dict[str, Any]:
        """The entry of an attestation in the transparency log, which has one other."""
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        hash_ = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
        signatures = [{"signature": _text(signature), "verifier": _text(pem)}]
        spec = {"envelopeHash": hash_, "payloadHash": hash_, "signatures": signatures}
        body = _canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        other = hashlib.sha256(b"\0another entry").digest()
        root = hashlib.sha256(b"\1" + other + hashlib.sha256(b"\0" + body).digest()).digest()
        log = hashlib.sha256(_public(self._log_key)).digest()
        note = f"log of a test\n2\n{_text(root)}\n"
        signed_note = _text(log[:4] + _sign(self._log_key, note.encode()))
        seconds = int(time.timestamp())
        promised = {"body": _text(body), "integratedTime": seconds, "logID": log.hex(), "logIndex": 1}
        return {
            "logIndex": "1",
            "logId": {"keyId": _text(log)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(seconds),
            "inclusionPromise": {"signedEntryTimestamp": _text(_sign(self._log_key, _canonical(promised)))},
            "inclusionProof": {
                "logIndex": "1",
                "rootHash": _text(root),
                "treeSize": "2",
                "hashes": [_text(other)],
                "checkpoint": {"envelope": f"{note}\n\N{EM DASH} log {signed_note}\n"},
            },
            "canonicalizedBody": _text(body),
        }


_NO_USAGES = dict.fromkeys(
    [
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ],
    False,
)


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.DER, form)


def _log(key: ec.EllipticCurvePrivateKey, start: dict[str, str]) -> dict[str, Any]:
    raw = _public(key)
    return {
        "baseUrl": "https://log.example",
        "hashAlgorithm": "SHA2_256",
        "publicKey": {"rawBytes": _text(raw), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": start},
        "logId": {"keyId": _text(hashlib.sha256(raw).digest())},
    }


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def _utf8_string(text: str) -> bytes:
    return _der_value(12, text.encode())


def _der_value(tag: int, data: bytes) -> bytes:
    size = len(data).to_bytes((len(data).bit_length() + 7) // 8 or 1, "big")
    return bytes([tag, *([] if len(data) < 0x80 else [0x80 | len(size)])]) + size + data


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _canonical(document: Any) -> bytes:
    """As RFC 8785 has it, for documents of ASCII and small numbers."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
