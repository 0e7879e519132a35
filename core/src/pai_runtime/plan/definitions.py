"""The definitions that a job requires, from the plugin that finds them; imported for a job that has any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pai_runtime.definitions import Definitions, NoDefinition
from pai_runtime.document.problems import InvalidInput, Problem
from pai_runtime.document.value import Value
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable

BUILT_IN: Final = "com.microsoft.pai.runtimeplugin.definitions"
"""The id of the plugin that comes with the runtime, in the distribution ``pai-definitions``."""
_HOOK: Final = "pai_definitions"


class JobDefinitions:
    """The definitions of a job, opened when they are first needed; see `OpenDefinitions`.

    `job` is the job file; None if it is in none, as in a pod. `lock` is the lock file that applies; None
    means the one beside the job file, if there is one.
    """

    def __init__(self, host: Host, job: Path | None, lock: Path | None = None) -> None:
        self._host = host
        self._job = job
        self._lock = lock
        self._opened: Definitions | None = None

    def __call__(self, secrets: Mapping[str, Value]) -> Definitions:
        """Open the definitions with the job's secrets; see `OpenDefinitions`."""
        try:
            plugin = _plugin(self._host)
        except Unavailable as error:
            install = "" if error.installed else "; to install it: pip install pai-definitions"
            raise NoDefinition("definition-unavailable", f"{error}{install}") from None
        try:
            hook = self._host.load(plugin).manager.hook.pai_definitions
        except PluginError as error:
            raise InvalidInput([Problem("plugin-error", str(error))]) from error
        opened: Definitions | None = hook(
            job=self._job, lock=self._lock, secrets=secrets, refusal=self._host.location_refusal
        )
        if opened is None:
            raise NoDefinition("definition-unavailable", f"{plugin.label} finds none here")
        self._opened = opened
        return opened

    def resolved(self) -> str:
        """Return a lock file that contains everything that was found; empty if nothing was."""
        return self._opened.resolved() if self._opened else ""


def _plugin(host: Host) -> Plugin:
    """Return the first usable plugin, by id, that finds definitions.

    Raises `Unavailable` if there is none.
    """
    ids = [id_ for id_, (plugin, *_) in host.installed.items() if _HOOK in plugin.manifest.hooks]
    usable = (id_ for id_ in ids if host.refusal(id_) is None)
    return host.find(next(usable, ids[0] if ids else BUILT_IN))
