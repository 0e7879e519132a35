"""Attestations of files (PEP 740): verified offline, by what the trusted root of a Sigstore instance has."""

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError
from pypi_attestations import Attestation, AttestationType, Provenance
from sigstore.models import TrustedRoot
from sigstore.verify import Verifier

from pai_attestations.workflow import Workflow, built_by

_PAYLOAD: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"

_INSTANCE: Final = "https://tuf-repo-cdn.sigstore.dev"
"""What the public instance of Sigstore is called in the files of its library."""


class NotVerified(Exception):
    """The exception for what is not shown to have been built by a workflow."""


def verifier(root: Path | None) -> Verifier:
    """Return what verifies by a trusted root; None for that of the public instance, as the library ships it.

    Neither the network nor a cache in the home directory is asked. Raises ValueError for what is none.
    """
    if root is None:
        shipped = files("sigstore._store") / quote(_INSTANCE, safe="") / "trusted_root.json"
        with as_file(shipped) as path:
            return Verifier(trusted_root=TrustedRoot.from_file(str(path)))
    try:
        if root.is_file():
            return Verifier(trusted_root=TrustedRoot.from_file(str(root)))
    except Exception as error:  # noqa: BLE001 - the library raises whatever its parts do
        raise ValueError(f"{root}: not a trusted root of Sigstore: {_first_line(error)}") from None
    raise ValueError(f"{root}: not a file with a trusted root of Sigstore")


def attestations(data: bytes) -> list[Attestation]:
    """Return the attestations in a file, which is one or, as an index serves them, a provenance object.

    Who an index says has published them is not taken from it. Raises `NotVerified` for anything else.
    """
    try:
        found = TypeAdapter(Attestation | Provenance).validate_json(data)
    except ValidationError:
        raise NotVerified("it is no attestation, and no provenance object with some (PEP 740)") from None
    if isinstance(found, Attestation):
        return [found]
    return [each for bundle in found.attestation_bundles for each in bundle.attestations]


def verify(attestation: Attestation, by: Verifier, workflow: Workflow, name: str, sha256: str) -> str:
    """Verify that a workflow has attested a file of this name and SHA-256.

    Return the workflow with the branch or tag and the commit from which it ran. Raises `NotVerified`.
    """
    try:
        kind, payload = by.verify_dsse(attestation.to_bundle(), workflow.policy)
        claims, statement = attestation.certificate_claims, json.loads(payload)
    except Exception as error:  # noqa: BLE001 - the library raises whatever its parts do of what is malformed
        raise NotVerified(f"its attestation does not hold: {_first_line(error)}") from None
    if not workflow.is_in(claims):
        raise NotVerified(f"it is by {built_by(claims)}, not by {workflow.url}")
    if kind != _PAYLOAD or not isinstance(statement, dict) or statement.get("_type") != _STATEMENT:
        raise NotVerified("it is signed, but is no statement of an attestation")
    if statement.get("predicateType") not in list(AttestationType):
        raise NotVerified(f"it attests something else: {statement.get('predicateType')}")
    if (found := _attested(statement)) != (name, sha256):
        raise NotVerified(f"it is about {found[0]} with the SHA-256 {found[1]}, not about this file")
    return built_by(claims)


def _attested(statement: dict[str, Any]) -> tuple[Any, Any]:
    """Return the name and SHA-256 of the one file that a statement is about."""
    match statement.get("subject"):
        case [{"name": str(name), "digest": {"sha256": str(sha256)}}]:
            return name, sha256
    return None, None


def _first_line(error: Exception) -> str:
    return f"{error}".partition("\n")[0] or type(error).__name__
