"""The keys of a run, which all of its tasks share and nobody else has."""

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from pai_runtime.plugin import UserError


@dataclass(frozen=True)
class KeyPair:
    """A private and a public key in OpenSSH's file formats."""

    private: str = field(repr=False)
    public: str


@dataclass(frozen=True)
class Keys:
    """The keys of a run: `host` identifies its tasks, `job` logs in to others, `users` are public keys."""

    host: KeyPair
    job: KeyPair
    users: tuple[str, ...]


def keys_of_run(secrets: Mapping[str, str]) -> Keys:
    """Return all keys, derived from the platform's secrets. Raises `UserError` if there are none.

    ``jobSSH`` is a key pair, ``sshKeys`` the user's public keys, both in the form of the cluster's user
    profiles. Keys are derived from the secret that the tasks share, so that nobody has to distribute them.
    """
    given = json.loads(secrets["jobSSH"]) if "jobSSH" in secrets else None
    users = tuple(each["value"] for each in json.loads(secrets.get("sshKeys", "[]")))
    material = secrets.get("run") or (given and given["key"])
    if not material:
        raise UserError("the platform provides no secret from which keys can be made")
    job = KeyPair(given["key"], given["pubKey"]) if given else _derive(material, "job")
    return Keys(_derive(material, "host"), job, users)


def _derive(material: str, purpose: str) -> KeyPair:
    # Any 32 bytes are a private key of this kind, and HMAC makes them as hard to guess as the material.
    seed = hmac.digest(material.encode(), f"pai-ssh {purpose}".encode(), "sha256")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode())
