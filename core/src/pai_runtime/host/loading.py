"""The only place where plugins are imported."""

import pluggy

from pai_runtime import hooks
from pai_runtime.host.blame import blamed
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.own_modules import import_entry
from pai_runtime.plugin import PROJECT
from pai_runtime.task.record import record


@record(frozen=True)
class LoadedPlugin:
    """An imported plugin in a plugin manager of its own, so that plugins cannot disturb each other."""

    plugin: Plugin
    manager: pluggy.PluginManager

    def implements(self, hook: str) -> bool:
        """Return whether the plugin implements a hook."""
        return bool(getattr(self.manager.hook, hook).get_hookimpls())


def load(plugin: Plugin) -> LoadedPlugin:
    """Import an allowed plugin. Raises `PluginError` if that fails."""
    with blamed(plugin, "import"):
        implementation = import_entry(plugin.code, plugin.value)
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(hooks)
        manager.register(implementation, name=plugin.id)
        manager.check_pending()
    return LoadedPlugin(plugin, manager)
