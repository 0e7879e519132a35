"""The definitions that a job requires, from the plugin that finds them; imported for a job that has any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pai_document.problems import InvalidInput, Problem
from pai_document.value import Value
from pai_runtime.definitions import Definition, Definitions, NoDefinition
from pai_runtime.host.blame import PluginError
from pai_runtime.host.guard import Contract, Guard, of_type
from pai_runtime.host.host import Host, Unavailable

BUILT_IN: Final = "com.microsoft.pai.runtimeplugin.definitions"
"""The id of the plugin that comes with the runtime, in the distribution ``pai-definitions``."""
_HOOK: Final = "pai_definitions"
_DEFINITIONS: Final = Contract(
    Definitions,
    {
        "find": of_type(Definition),
        "completed": of_type(Mapping),
        "rendered": of_type(Value),
        "resolved": of_type(str),
    },
    (InvalidInput, NoDefinition),
)
"""What the object that the hook returns has to be."""


def _raised(error: PluginError) -> InvalidInput:
    return InvalidInput([Problem("plugin-error", str(error))])


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
            id_ = host.only(lambda each: _HOOK in each.manifest.hooks, "the search for shared definitions")
            plugin = host.find(id_ or BUILT_IN)
        except Unavailable as error:
            install = "" if error.installed else "; to install it: pip install pai-definitions"
            raise NoDefinition("definition-unavailable", f"{error}{install}") from None
        try:
            found = host.call(
                plugin,
                _HOOK,
                job=self._job,
                lock=self._lock,
                secrets=secrets,
                refusal=host.location_refusal,
            )
        except PluginError as error:
            raise _raised(error) from error
        if found is None:
            raise NoDefinition("definition-unavailable", f"{plugin.label} finds none here")
        try:
            opened: Definitions = Guard(plugin, _raised).guarded(found, _DEFINITIONS)
        except TypeError as error:
            raise _raised(PluginError(plugin, f"hook {_HOOK}", str(error))) from None
        self._opened = opened
        return opened

    def resolved(self) -> str:
        """Return a lock file that contains everything that was found; empty if nothing was."""
        return self._opened.resolved() if self._opened else ""
