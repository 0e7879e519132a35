"""How the engine of a profile is found: as a plugin, under the policies in force."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pai_runtime.document.problems import InvalidInput
from pai_runtime.engines.profiles import Profile, find_profile
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_runtime.engines.cluster import Cluster


def open_cluster(name: str, host: Host) -> "Cluster":
    """Return the cluster that the profile of this name describes, without contacting it.

    Raises `InvalidInput`.
    """
    profile = find_profile(name)
    plugin = _engine(profile, host)
    try:
        cluster: Any = host.load(plugin).manager.hook.pai_engine(profile=profile)
    except PluginError as error:
        raise _fault(profile, str(error)) from error
    if cluster is None:
        raise _fault(profile, f"{plugin.label} opens no cluster: its hook pai_engine returned nothing")
    opened: Cluster = cluster
    return opened


def _engine(profile: Profile, host: Host) -> Plugin:
    """Return the installed engine that a profile is for, which may be used; raises `InvalidInput`."""
    name = profile.engine
    found = [plugin for plugin in _engines(host) if plugin.manifest.engine == name]
    if not found:
        known = ", ".join(sorted({plugin.manifest.engine for plugin in _engines(host)})) or "none"
        raise _fault(profile, f"the engine '{name}' is not installed here; installed: {known}")
    if len(found) > 1:
        owners = ", ".join(sorted(plugin.distribution for plugin in found))
        raise _fault(profile, f"the engine '{name}' is provided by several distributions: {owners}")
    (plugin,) = found
    if reason := host.refusal(plugin.id):
        raise _fault(profile, f"the engine '{name}', {plugin.label}, is refused: {reason}")
    return plugin


def _fault(profile: Profile, message: str) -> InvalidInput:
    return InvalidInput([(profile.value.get("engine") or profile.value).problem("no-engine", message)])


def _engines(host: Host) -> Iterator[Plugin]:
    return (plugin for each in host.installed.values() for plugin in each if plugin.manifest.engine)
