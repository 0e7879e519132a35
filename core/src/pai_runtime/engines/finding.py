"""Lookup of the engine of a profile."""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pai_runtime.document.problems import InvalidInput
from pai_runtime.engines.profiles import Profile, find_profile
from pai_runtime.host.core_imports import OWN, lift
from pai_runtime.host.metadata import distributions_with, entry_points, name_and_version

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_runtime.engines.cluster import Cluster, Engine

GROUP: Final = "pai_runtime.engines"


def open_cluster(name: str) -> "Cluster":
    """Return the cluster that the profile of this name describes, without contacting it.

    Raises `InvalidInput`.
    """
    profile = find_profile(name)
    return find_engine(profile).open_cluster(profile)


def find_engine(profile: Profile) -> "Engine":
    """Import the installed engine of a profile. Raises `InvalidInput` if there is none, or several."""
    name = profile.engine
    found = list(_claims(name))
    if not found:
        known = ", ".join(sorted({each for each, _, _ in _engines()})) or "none"
        raise _fault(profile, f"the engine '{name}' is not installed here; installed: {known}")
    if len(found) > 1:
        owners = ", ".join(sorted(owner for owner, _ in found))
        raise _fault(profile, f"the engine '{name}' is provided by several distributions: {owners}")
    ((distribution, value),) = found
    module, _, attribute = value.partition(":")
    if module.strip().partition(".")[0] not in OWN:
        lift()
    try:
        engine: Any = import_module(module.strip())
        for part in filter(None, attribute.strip().split(".")):
            engine = getattr(engine, part)
        engine.open_cluster  # noqa: B018 - what has none is no engine
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        message = f"the engine '{name}' of {distribution} cannot be imported: {what}"
        raise _fault(profile, message) from error
    checked: Engine = engine
    return checked


def _fault(profile: Profile, message: str) -> InvalidInput:
    return InvalidInput([(profile.value.get("engine") or profile.value).problem("no-engine", message)])


def _claims(name: str) -> Iterator[tuple[str, str]]:
    """Yield the distributions with an engine of this name, each with the value of its entry point."""
    return ((owner, value) for each, owner, value in _engines() if each == name)


def _engines() -> Iterator[tuple[str, str, str]]:
    """Yield name, distribution and entry point value of all engines."""
    for distribution in distributions_with(GROUP):
        owner, _ = name_and_version(distribution)
        yield from ((name, owner, value) for name, value in entry_points(distribution, GROUP))
