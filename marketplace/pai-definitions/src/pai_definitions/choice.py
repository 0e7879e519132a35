"""The choice between several definitions for a reference."""

from collections.abc import Sequence
from typing import Final

from pai_definitions.reference import Reference
from pai_document.problems import listed
from pai_runtime.definitions import Definition, NoDefinition

_MOST_LISTED: Final = 10


def chosen(reference: Reference, found: Sequence[Definition]) -> Definition:
    """Return the one that a reference means of definitions with its name and type. Raises `NoDefinition`.

    Without a version, the highest is chosen, if versions are comparable.
    """
    if reference.digest:
        found = _with_digest(reference, found)
    if reference.version:
        versions = [definition.version or "none" for definition in found]
        found = [definition for definition in found if definition.version == reference.version]
        if not found:
            message = (
                f"'{published_name(reference)}' has no version {reference.version}; it has {listed(versions)}"
            )
            raise NoDefinition("no-such-definition", message, versions)
    if len(found) > 1:
        found = _highest(found)
    if len(found) == 1:
        return found[0]
    raise _ambiguous(reference, found)


def published_name(reference: Reference) -> str:
    """Return a reference for messages, without version and digest."""
    return reference.text.partition("@sha256:")[0].removesuffix(f"@{reference.version}")


def _with_digest(reference: Reference, found: Sequence[Definition]) -> Sequence[Definition]:
    same = [definition for definition in found if definition.file.digest == reference.digest]
    if not same:
        others = " and ".join(
            f"sha256:{each.file.digest} ({each.file.shown})" for each in found[:_MOST_LISTED]
        )
        message = f"expected a definition file with the digest sha256:{reference.digest}, found {others}"
        raise NoDefinition("wrong-digest", message)
    return same


def _highest(found: Sequence[Definition]) -> Sequence[Definition]:
    """Return the definitions of the highest version; all of them if versions are not comparable."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - few names have several versions

    try:
        versions = [Version(definition.version) for definition in found]
    except InvalidVersion:
        return found
    if len({definition.kind for definition in found}) > 1:
        return found
    highest = max(versions)
    return [each for each, version in zip(found, versions, strict=True) if version == highest]


def _ambiguous(reference: Reference, found: Sequence[Definition]) -> NoDefinition:
    each = "; ".join(_described(definition) for definition in found[:_MOST_LISTED])
    name = published_name(reference)
    if reference.kind not in ("name", "plain"):
        message = f"'{name}' has several definitions: {each}; add '#' and the name of one of them"
    else:
        message = (
            f"'{name}' may be any of {len(found)} definitions: {each}; ask for one by its version, type or"
            f" digest, or by its id as marketplace://prerequisites/itemId/ID"
        )
    return NoDefinition("ambiguous-definition", message)


def _described(definition: Definition) -> str:
    author = f" by {definition.file.author}" if definition.file.author else ""
    version = f" {definition.version}" if definition.version else ""
    return f"{definition.name}{version} in {definition.file.shown}{author}"
