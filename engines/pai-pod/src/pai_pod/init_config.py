"""The configuration of a cluster's init plugins and their order."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pai_document.problems import Location, Problem, Problems, listed, near_miss
from pai_document.schemas import check_value, package_schema
from pai_document.value import Value
from pai_pod.config_files import given_document
from pai_pod.directories import Directories
from pai_pod.init_steps import BUILT_IN, USUAL, USUAL_WITH_PEERS, brought_step
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable, check_parameters
from pai_runtime.job.model import plugin_id
from pai_task.record import field, record

HOOK: Final = "pai_init_container"


@record(frozen=True)
class InitPlugin:
    """One init plugin: a step (`pai_pod.init_steps`) by name, a `command`, or an installed plugin.

    `label` is its name in messages. `is_usual` means that nobody has asked for it.
    """

    name: str
    label: str
    command: str | None = None
    plugin: Plugin | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_usual: bool = False


def read_init_plugins(
    environment: Mapping[str, str], directories: Directories, host: Host, *, has_peers: bool
) -> Sequence[InitPlugin]:
    """Return the configured init plugins, else the default ones; none is imported. Raises `InvalidInput`.

    `has_peers` means that an engine made the pod from a job.
    """
    root = given_document(environment, "INIT_CONFIG", directories, "init_plugins.yaml")
    if root is None:
        usual = USUAL_WITH_PEERS if has_peers else USUAL
        return [InitPlugin(name, f"init plugin '{name}'", is_usual=True) for name in usual]
    problems = Problems()
    check_value(root, package_schema("pai_pod", "init-plugins.schema.json"), problems)
    problems.check()
    items = root.get("initPlugins")
    found = [_init_plugin(item, host, problems) for item in items.values()] if items else []
    problems.check()
    return found


def _init_plugin(item: Value, host: Host, problems: Problems) -> InitPlugin:
    name, command, parameters = item.data["name"], item.data.get("command"), item.data.get("parameters") or {}
    label = f"init plugin '{name}' ({item.position})"
    at = item.at(("parameters",))
    if command:
        if parameters:
            message = "an init plugin with a command takes no parameters; put them into the command line"
            problems.add(_problem("parameters-of-command", message, at))
        return InitPlugin(name, label, command=command)
    if name in BUILT_IN or _is_brought(name, host):
        if parameters:
            problems.add(_problem("unknown-parameters", f"{name} takes no parameters", at))
        return InitPlugin(name, label)
    plugin = _installed(name, item.at(("name",)), host, problems)
    if plugin:
        given = item.get("parameters") if parameters else None
        check_parameters(plugin, parameters, problems, (given or item).at)
    return InitPlugin(name, label, plugin=plugin, parameters=parameters)


def _is_brought(name: str, host: Host) -> bool:
    """Return whether an installed distribution brings a step of this name, which the policy may refuse."""
    try:
        return brought_step(name, host) is not None
    except Unavailable:
        return True


def _installed(name: str, at: Location, host: Host, problems: Problems) -> Plugin | None:
    """Return the installed plugin of this name; None after reporting a fault."""
    try:
        plugin = host.find(plugin_id(name))
    except Unavailable as error:
        if error.installed:
            problems.add(_problem("plugin-refused", str(error), at))
        else:
            message = f"there is no init plugin '{name}'; expected {listed(BUILT_IN)}, or an installed plugin"
            meant = near_miss(name, BUILT_IN) or error.suggestion
            problems.add(_problem("no-such-init-plugin", message, at, meant))
        return None
    if HOOK not in plugin.manifest.hooks:
        message = f"{plugin.label} is not an init plugin: its manifest does not list the hook {HOOK}"
        problems.add(_problem("no-init-plugin", message, at))
        return None
    return plugin


def _problem(code: str, message: str, at: Location, suggestion: str | None = None) -> Problem:
    return Problem(code, message, at.position, at.field, suggestion=suggestion)
