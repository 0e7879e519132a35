"""The definitions that a job requires, from the plugin that finds them; imported for a job that has any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pai_runtime.definitions import Definitions, NoDefinition
from pai_runtime.document.problems import InvalidInput, Problem
from pai_runtime.document.value import Value
from pai_runtime.host.blame import PluginError
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
        host = self._host
        try:
            plugin = host.find(host.first(lambda each: _HOOK in each.manifest.hooks) or BUILT_IN)
        except Unavailable as error:
            install = "" if error.installed else "; to install it: pip install pai-definitions"
            raise NoDefinition("definition-unavailable", f"{error}{install}") from None
        try:
            opened: Definitions | None = host.call(
                plugin,
                _HOOK,
                job=self._job,
                lock=self._lock,
                secrets=secrets,
                refusal=host.location_refusal,
            )
        except PluginError as error:
            raise InvalidInput([Problem("plugin-error", str(error))]) from error
        if opened is None:
            raise NoDefinition("definition-unavailable", f"{plugin.label} finds none here")
        self._opened = opened
        return opened

    def resolved(self) -> str:
        """Return a lock file that contains everything that was found; empty if nothing was."""
        return self._opened.resolved() if self._opened else ""
