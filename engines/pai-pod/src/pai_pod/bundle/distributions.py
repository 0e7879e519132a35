"""The distributions of a bundle: the runtime, those of allowed plugins, and their dependencies."""

from collections.abc import Iterator

from packaging.requirements import Requirement

from pai_pod.bundle.errors import CannotBundle
from pai_runtime.host.code import Code
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host
from pai_runtime.host.installed import installed_code
from pai_runtime.host.metadata import normalized, text
from pai_task.record import record

RUNTIME = "pai-runtime"
POD = "pai-pod"
"""This distribution: the first process of a task container is its module `pai_pod.entry`."""
_NOT_IN_TASKS = frozenset({"pai_check_job", "pai_definitions", "pai_engine", "pai_read_job"})
"""Hooks that are called where jobs are planned or submitted."""


@record(frozen=True)
class Bundled:
    """A distribution of a bundle.

    `is_plugin` means that plans pin its code, which must not change by a byte.
    """

    code: Code
    is_plugin: bool


def bundled_plugins(host: Host) -> Iterator[Plugin]:
    """Return the plugins that may be used, but for those that no task needs."""
    return (plugin for plugin in host.usable if not _NOT_IN_TASKS.issuperset(plugin.manifest.hooks))


def bundled_distributions(host: Host) -> list[Bundled]:
    """Return the distributions by name.

    Raises `CannotBundle` if one is missing, or has plugins but none allowed.
    """
    allowed = {_key(plugin.code): plugin.code for plugin in bundled_plugins(host)}
    refused = {_key(code) for code in host.installed.codes} - {_key(each.code) for each in host.usable}
    own = {name: _installed(name, "the runtime itself") for name in (RUNTIME, POD)}
    found = {**own, **allowed}
    wanted = [(key, "") for key in found]
    seen = set(wanted)
    for key, extra in wanted:  # which grows meanwhile
        code = found[key]
        for requirement in _requirements(code, extra):
            name = normalized(requirement.name)
            if name in refused:
                raise CannotBundle(f"{code.distribution} needs {name}, which the policy refuses")
            if name not in found:
                found[name] = _installed(name, code.distribution)
            more = [pair for pair in ((name, each) for each in ("", *requirement.extras)) if pair not in seen]
            wanted += more
            seen.update(more)
    return [Bundled(code, key in allowed) for key, code in sorted(found.items())]


def _installed(name: str, needed_by: str) -> Code:
    try:
        return installed_code(name)
    except LookupError as error:
        raise CannotBundle(f"{error}; {needed_by} needs it") from None


def _requirements(code: Code, extra: str) -> Iterator[Requirement]:
    """Yield what a distribution requires on this machine, without an extra or for one."""
    header = (text(code.installed, "METADATA") or "").partition("\n\n")[0]
    for line in header.splitlines():
        key, _, value = line.partition(":")
        if key.lower() == "requires-dist":
            requirement = Requirement(value.strip())
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                yield requirement


def _key(code: Code) -> str:
    return normalized(code.distribution)
