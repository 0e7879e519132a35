"""How the engine of a profile is found: as a plugin, under the policies in force."""

import os
from typing import TYPE_CHECKING, Final

from pai_document.document import parse_document
from pai_document.problems import InvalidInput
from pai_runtime.engines.contract import ENGINE, raised
from pai_runtime.engines.profiles import Profile, find_profile
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.guard import Guard
from pai_runtime.host.host import Host, Unavailable

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_runtime.engines.interface import Engine

CONTAINER: Final = "container"
"""The name of the engine that ``--container`` means, without a profile."""

_WITHIN: Final = {"SLURM_JOB_ID": "slurm"}
"""Variables that are set in an allocation of a cluster, with the name of the engine for it."""
_OF_TASK: Final = "PAI_TASK_INDEX"
"""A variable of every task of ours: what it starts is its own, and not for the other nodes."""


def open_engine(name: str, host: Host) -> "Engine":
    """Return the engine that the profile of this name describes, without contacting anything.

    Raises `InvalidInput`.
    """
    return _opened(find_profile(name), host)


def open_container_engine(program: str, host: Host) -> "Engine":
    """Return the engine for containers on this machine, which `program` makes. Raises `InvalidInput`."""
    profile = parse_document(f"{{engine: {CONTAINER}, program: {program}}}", "--container")
    return _opened(Profile(CONTAINER, CONTAINER, profile), host)


def open_engine_within(host: Host) -> "Engine | None":
    """Return the engine for the allocation that this process is in; None if it is in none, or for a lack.

    Raises `InvalidInput`.
    """
    name = next((name for variable, name in _WITHIN.items() if os.environ.get(variable)), None)
    if name is None or _OF_TASK in os.environ:
        return None
    if not any(plugin.manifest.engine == name for plugin in host.usable):
        return None
    profile = parse_document(f"{{engine: {name}, within: true}}", "the allocation")
    return _opened(Profile("", name, profile), host)


def is_within() -> bool:
    """Return whether this process is in an allocation of a cluster, of a kind that is known here."""
    return any(os.environ.get(variable) for variable in _WITHIN)


def _opened(profile: Profile, host: Host) -> "Engine":
    try:
        plugin = _engine(profile, host)
        opened = host.call(plugin, "pai_engine", profile=profile)
    except (Unavailable, PluginError) as error:
        raise _fault(profile, str(error)) from error
    try:
        engine: Engine = Guard(plugin, raised).guarded(opened, ENGINE)
    except TypeError as error:
        raise _fault(profile, f"{plugin.label}, hook pai_engine: {error}") from None
    return engine


def _engine(profile: Profile, host: Host) -> Plugin:
    """Return the engine that a profile is for. Raises `InvalidInput`, and `Unavailable` if it is refused."""
    name = profile.engine
    usable = [plugin for plugin in host.usable if plugin.manifest.engine == name]
    if len(usable) > 1:  # the profile may lead to credentials: whose engine gets them is not for names to say
        owners = ", ".join(sorted(plugin.distribution for plugin in usable))
        raise _fault(
            profile,
            f"the engine '{name}' is provided by several distributions: {owners}; a policy can choose",
        )
    id_ = host.first(lambda plugin: plugin.manifest.engine == name)
    if id_ is None:
        engines = {plugin.manifest.engine for plugins in host.installed.values() for plugin in plugins}
        known = ", ".join(sorted(filter(None, engines))) or "none"
        raise _fault(profile, f"the engine '{name}' is not installed here; installed: {known}")
    return host.find(id_)


def _fault(profile: Profile, message: str) -> InvalidInput:
    return InvalidInput([(profile.value.get("engine") or profile.value).problem("no-engine", message)])
