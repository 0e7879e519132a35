"""The policy: which plugins a cluster allows, decided from metadata before any import, in doubt none."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pai_document.document import read_document
from pai_document.problems import Location, Problem, Problems, listed, near_miss, unexpected
from pai_document.schemas import check_value, package_schema
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.metadata import normalized
from pai_task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_document.value import Value
    from pai_runtime.host.definition_policy import DefinitionPolicy

EVERY = "*"
"""The value of ``versions`` that allows every version."""

_LOWEST: Final = ("==", "===", "~=", ">=", ">")
"""The operators of specifiers that say from which version on they match."""


@record(frozen=True)
class AllowedPlugin:
    """An entry of a policy; `versions` are PEP 440 specifiers or `EVERY`, `digest` None allows any code.

    `where` is the location of its id in the policy. `built_by` is the URL of the workflow that was shown to
    have built the code with that digest: only what it has built takes the place of that. `default` is the
    value that says that jobs which do not name it use it too; None if they do not.
    """

    id: str
    distribution: str
    versions: str
    digest: str | None
    where: Location
    built_by: str | None = None
    default: "Value | None" = None


@record(frozen=True)
class Policy:
    """The content of a policy file; without a file, `allowed` is None and all plugins are allowed.

    `definitions` None allows all definitions.
    """

    file: str | None
    allowed: tuple[AllowedPlugin, ...] | None
    definitions: "DefinitionPolicy | None" = None


NO_POLICY = Policy(None, None)


def read_policy(path: Path) -> Policy:
    """Read a policy file. Raises `InvalidInput` if it cannot be read or has any fault."""
    root, problems = read_document(path), Problems()
    check_value(root, package_schema("pai_runtime.host", "policy.schema.json"), problems)
    problems.check()
    allowed = []
    for index, entry in enumerate(root.data["plugins"]):
        where = root.at(("plugins", index, "id"))
        named = entry["id"], entry["distribution"], entry["versions"]
        default = root.get("plugins", index, "default") if entry.get("default") else None
        allowed.append(AllowedPlugin(*named, entry.get("digest"), where, entry.get("builtBy"), default))
        if not _are_versions(entry["versions"]):
            at = root.at(("plugins", index, "versions"))
            found = f"'{entry['versions']}'"
            expected = f"version specifiers such as '>=1.2,<2', or '{EVERY}' for every version"
            message = unexpected(expected, found)
            problems.add(at.problem("wrong-versions", message, found=found, expected=expected))
    from pai_runtime.host.definition_policy import read_definition_policy  # noqa: PLC0415 - as below

    definitions = read_definition_policy(root, problems)
    problems.check()
    return Policy(str(path), tuple(allowed), definitions)


def _are_versions(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - only a policy needs it

    try:
        return text == EVERY or len(SpecifierSet(text)) > 0
    except InvalidSpecifier:
        return False


def is_downgrade(version: str, versions: str) -> bool:
    """Return whether a version is lower than what the specifiers in a policy allow."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only a policy needs it
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    if versions == EVERY or SpecifierSet(versions).contains(version, prereleases=True):
        return False
    lowest = []
    for specifier in SpecifierSet(versions):
        if specifier.operator in _LOWEST:
            with contextlib.suppress(InvalidVersion):  # `===` takes any text
                lowest.append(Version(specifier.version.removesuffix(".*")))
    return any(Version(version) <= each for each in lowest)


def unmatched(policy: Policy, installed: Mapping[str, Sequence[Plugin]]) -> Iterator[Problem]:
    """Yield a warning for each entry that matches nothing installed: it is misspelt or out of date."""
    if policy.allowed and policy.definitions:
        from pai_runtime.host.definition_policy import unmatched_plugins  # noqa: PLC0415 - as above

        yield from unmatched_plugins(policy.definitions, [entry.id for entry in policy.allowed])
    for entry in policy.allowed or ():
        claimants, suggestion = installed.get(entry.id, ()), None
        reasons = [mismatch(entry, plugin) for plugin in claimants]
        if claimants and None in reasons:
            continue
        if claimants:
            message = f"matches nothing that is installed: for {claimants[0].label}, it {reasons[0]}"
        else:
            message, suggestion = "no plugin with this id is installed", near_miss(entry.id, installed)
        found = f"'{entry.id}'"
        yield entry.where.problem(
            "unmatched-entry", message, found=found, suggestion=suggestion, severity="warning"
        )


def freeze(plugin: Plugin) -> dict[str, str]:
    """Return a policy entry that allows a plugin exactly as it is installed.

    Raises ValueError if its version cannot be compared, or its code has no digest.
    """
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only a policy needs it

    versions = str(SpecifierSet(f"=={plugin.version}"))
    return {
        "id": plugin.id,
        "distribution": plugin.distribution,
        "versions": versions,
        "digest": plugin.code.digest,
    }


def refusal(policies: Iterable[Policy], claimants: Sequence[Plugin]) -> str | None:
    """Return why the id that `claimants` share may not be used; None if every policy allows it."""
    if len(claimants) > 1:
        names = " and ".join(f"{plugin.distribution} {plugin.version}" for plugin in claimants)
        return f"{names} both claim this id; uninstall all but one"
    (plugin,) = claimants
    if plugin.fault:
        return plugin.fault
    return next(filter(None, (_refusal(policy, plugin) for policy in policies)), None)


def _refusal(policy: Policy, plugin: Plugin) -> str | None:
    if policy.allowed is None:
        return None
    allowed = [entry for entry in policy.allowed if entry.id == plugin.id]
    if not allowed:
        ids = list(dict.fromkeys(entry.id for entry in policy.allowed))
        return f"policy {policy.file} does not list it; it lists {listed(ids) or 'no plugin'}"
    reasons = [mismatch(entry, plugin) for entry in allowed]
    if None in reasons:
        return None
    return f"policy {policy.file} " + " and ".join(filter(None, reasons))


def mismatch(entry: AllowedPlugin, plugin: Plugin) -> str | None:
    """Return why an entry does not match a plugin, as a predicate of the policy; None if it matches."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only a policy needs it
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    if normalized(entry.distribution) != normalized(plugin.distribution):
        return f"allows only the distribution {entry.distribution}"
    try:
        versions = SpecifierSet("" if entry.versions == EVERY else entry.versions)
        if not versions.contains(Version(plugin.version), prereleases=True):
            return f"allows only {entry.versions}"
    except InvalidVersion:
        return f"allows only {entry.versions}, and its version {plugin.version} cannot be compared"
    try:
        if entry.digest is None:
            changed = plugin.code.changed_files
            return f"refuses it: its file {changed[0]} has changed since installation" if changed else None
        found = plugin.code.digest
    except ValueError as error:
        return f"refuses it: {error}"
    return None if found == entry.digest else f"allows only the digest {entry.digest}, found {found}"
