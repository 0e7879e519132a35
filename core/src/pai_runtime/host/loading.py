"""The one place where a plugin is imported."""

import pluggy

from pai_runtime import hooks
from pai_runtime.host.blame import blamed
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.own_modules import import_entry
from pai_runtime.plugin import PROJECT
from pai_runtime.task.record import record


@record(frozen=True)
class LoadedPlugin:
    """An imported plugin, alone in a manager of its own: what one registers cannot disturb another."""

    plugin: Plugin
    manager: pluggy.PluginManager

    def implements(self, hook: str) -> bool:
        """Whether it has an implementation of a hook."""
        return bool(getattr(self.manager.hook, hook).get_hookimpls())


def load(plugin: Plugin) -> LoadedPlugin:
    """Import a plugin that is allowed; raises `PluginError`."""
    with blamed(plugin, "import"):
        implementation = import_entry(plugin.code, plugin.value)
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(hooks)
        manager.register(implementation, name=plugin.id)
        manager.check_pending()
    return LoadedPlugin(plugin, manager)
