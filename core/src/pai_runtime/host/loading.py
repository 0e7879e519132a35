"""The only place where plugins are imported."""

import time
import warnings
from typing import Any

import pluggy

from pai_document.problems import near_miss
from pai_runtime import hooks
from pai_runtime.host.blame import PluginError, blamed
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.own_modules import import_entry
from pai_runtime.plugin import PROJECT
from pai_task.record import record

HOOKS = frozenset(name for name in vars(hooks) if name.startswith("pai_"))
"""The names of all hooks."""


@record(frozen=True)
class LoadedPlugin:
    """An imported plugin in a plugin manager of its own, so that plugins cannot disturb each other.

    `import_time` is how long its import has kept a processor busy, in seconds.
    """

    plugin: Plugin
    manager: pluggy.PluginManager
    import_time: float

    def implements(self, hook: str) -> bool:
        """Return whether the plugin implements a hook."""
        return bool(getattr(self.manager.hook, hook).get_hookimpls())


def load(plugin: Plugin) -> LoadedPlugin:
    """Import an allowed plugin. Raises `PluginError` if that fails."""
    with blamed(plugin, "import"):
        before = time.process_time()
        implementation = import_entry(plugin.code, plugin.value)
        import_time = time.process_time() - before
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(hooks)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of deprecated hooks; a check tells the author
                manager.register(implementation, name=plugin.id)
            manager.check_pending()
        except pluggy.PluginValidationError as error:
            fault = _fault(manager, implementation) or str(error)
            raise PluginError(plugin, "import", fault, kind=type(error).__name__) from error
    return LoadedPlugin(plugin, manager, import_time)


def deprecation(hook: str) -> str | None:
    """Return what is said of a hook that the next API version will not have; None for others."""
    warning = getattr(getattr(hooks, hook), f"{PROJECT}_spec")["warn_on_impl"]
    return None if warning is None else str(warning)


def _fault(manager: pluggy.PluginManager, implementation: Any) -> str | None:
    """Return which of the functions marked as hooks the host cannot call, and why; None if it can all."""
    from pai_runtime.host.signatures import declared_arguments  # noqa: PLC0415 - not for what goes well

    for name in dir(implementation):
        if manager.parse_hookimpl_opts(implementation, name) is None:
            continue
        if name not in HOOKS:
            meant = near_miss(name, HOOKS)
            return f"there is no hook {name}" + (f"; did you mean {meant}?" if meant else "")
        known = declared_arguments(getattr(hooks, name))
        if wrong := [each for each in declared_arguments(getattr(implementation, name)) if each not in known]:
            return (
                f"the hook {name} has the argument {wrong[0]}, which nobody gives it: "
                f"it may have {', '.join(known)}"
            )
    return None
