"""Entries of policies for plugins of which an attestation shows who built them."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pypi_attestations import Attestation
from sigstore.verify import Verifier

from pai_attestations.verification import NotVerified, attestations, verifier, verify
from pai_attestations.wheels import MOST_BYTES, installed_digest, read, wheels_of
from pai_attestations.workflow import Workflow, workflow
from pai_runtime.command.jobs import Host, Plugin, Unavailable
from pai_runtime.command.output import say
from pai_runtime.command.policies import Entry, freeze, named, normalized, put, read_policy

_SUFFIXES: Final = (".publish.attestation", ".provenance")
"""What follows the name of a wheel in that of a file with attestations of it."""

_MOST_ATTESTATION_BYTES: Final = 1024 * 1024

_NOT_VERIFIED: Final = 1

_Key = tuple[str, str]
"""The id of a plugin, and the normalised name of its distribution."""


def verify_entries(
    name: str | None,
    built_by: str | None,
    policy: Path | None,
    *,
    wheels: Path,
    trusted_root: Path | None,
    downgrade: bool,
) -> int:
    """Print entries for plugins, or put them into a policy, if a workflow is shown to have built them.

    `name` is that of plugins; None for all for which the policy says who has to have built them. `built_by`
    is the URL of the workflow; None for what the policy says. Return 1 if something is not verified, or would
    be a downgrade. Raises ValueError for what is missing or wrong in these arguments.
    """
    by, wanted = verifier(trusted_root), _wanted(name, built_by, _workflows(policy))
    kept = policy.resolve().with_name(f"{policy.name}.attestations") if policy else None
    host, entries = Host(), list[Entry]()
    for (id_, distribution), workflow_ in wanted.items():
        try:
            plugin = host.find(id_)
            if normalized(plugin.distribution) != distribution:
                raise NotVerified(f"{plugin.label} is not from the distribution {distribution}")  # noqa: TRY301
            found = _verify(plugin, workflow_, by, wheels, kept)
            entries.append({**freeze(plugin), "builtBy": workflow_.url})
        except (Unavailable, NotVerified, ValueError) as error:
            say(f"{id_} is not verified: {error}")
        else:
            say(f"{plugin.label} was built by {found}")
    status = put(entries, policy, downgrade=downgrade) if entries else 0
    return status if len(entries) == len(wanted) else _NOT_VERIFIED


def _wanted(name: str | None, built_by: str | None, listed: Mapping[_Key, str]) -> dict[_Key, Workflow]:
    """Return the plugins, each with the workflow that has to have built it. Raises ValueError."""
    if name is None and (built_by is not None or not listed):
        raise ValueError(
            "name a plugin, or with --write a policy that says of plugins who has to have built them"
        )
    if name is None:
        return {key: workflow(url) for key, url in listed.items()}
    try:
        keys = [(plugin.id, normalized(plugin.distribution)) for plugin in named(name)]
    except Unavailable as error:
        raise ValueError(str(error)) from None
    wanted = {}
    for key in keys:
        url = built_by or listed.get(key)
        if url is None:
            raise ValueError(
                f"no policy says who has to have built {key[0]}; name the workflow: --built-by URL"
            )
        wanted[key] = workflow(url)
    return wanted


def _workflows(policy: Path | None) -> dict[_Key, str]:
    """Return the URLs of the workflows that a policy names, by id and distribution."""
    if policy is None or not os.path.lexists(policy):
        return {}
    entries = read_policy(policy).allowed or ()
    return {(each.id, normalized(each.distribution)): each.built_by for each in entries if each.built_by}


def _verify(plugin: Plugin, built_by: Workflow, by: Verifier, wheels: Path, kept: Path | None) -> str:
    """Verify that a workflow built a plugin as it is installed, and keep what shows that in a directory.

    Return the workflow with what it built from. Raises `NotVerified`, and ValueError if there is no digest.
    """
    digest, reasons = plugin.code.digest, []
    for path in wheels_of(plugin.distribution, plugin.version, wheels):
        try:
            wheel = read(path, MOST_BYTES)
            attestation, origin = _first_verified(_attestations(path, kept), by, built_by, path.name, wheel)
            found = installed_digest(wheel)
        except (NotVerified, FileNotFoundError) as error:
            reasons.append(f"{path.name}: {error}")
            continue
        if found == digest:
            if kept is not None:
                _keep(kept, path.name, attestation)
            return origin
        reasons.append(f"{path.name}: what is installed is something else; install this very wheel")
    if not reasons:
        what = f"{plugin.distribution} {plugin.version}"
        reasons.append(f"{wheels} has no wheel of {what}; expected that from which it was installed")
    raise NotVerified("; ".join(reasons))


def _attestations(wheel: Path, kept: Path | None) -> Iterator[Attestation]:
    """Yield the attestations beside a wheel, and those that are kept of it. Raises `NotVerified`."""
    for folder in filter(None, (wheel.parent, kept)):
        for suffix in _SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                yield from attestations(read(folder / f"{wheel.name}{suffix}", _MOST_ATTESTATION_BYTES))


def _first_verified(
    found: Iterable[Attestation], by: Verifier, built_by: Workflow, name: str, wheel: bytes
) -> tuple[Attestation, str]:
    reasons = []
    for attestation in found:
        try:
            return attestation, verify(attestation, by, built_by, name, hashlib.sha256(wheel).hexdigest())
        except NotVerified as error:
            reasons.append(str(error))
    expected = " or ".join(f"{name}{suffix}" for suffix in _SUFFIXES)
    raise NotVerified(
        "; ".join(dict.fromkeys(reasons)) or f"it has no attestation: expected {expected} beside it"
    )


def _keep(folder: Path, wheel: str, attestation: Attestation) -> None:
    """Write an attestation into a directory, atomically. Raises `NotVerified`."""
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            file = Path(aside, wheel)
            file.write_text(attestation.model_dump_json(), "utf-8")
            file.replace(folder / f"{wheel}{_SUFFIXES[0]}")
    except OSError as error:
        raise NotVerified(f"{folder}: {error.strerror}") from None
