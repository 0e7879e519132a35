"""For engines whose tasks run on this machine: the local engine with another place for the tasks.

Such an engine is a `LocalEngine` whose runs are a `NewLocalRun` at a `Site` of its own. All else is as for
local runs: their directories, and the commands that look at them.

Most names are imported when they are first asked for: who submits a run needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from pai_runtime.engines.local.environment import local_environment, secrets_among
from pai_runtime.engines.local.placement import placement
from pai_runtime.plan.environment import TaskName
from pai_task.exit_codes import killed_by
from pai_task.folder import Folder
from pai_task.interpreter import hook_argv, python_argv
from pai_task.launch import LaunchOptions
from pai_task.layout import LOGS, RECORD, SHARED, WORK
from pai_task.own_process import keep_to_ourselves
from pai_task.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from pai_document.configuration_files import user_directory
    from pai_runtime.engines.local.addresses import check_address
    from pai_runtime.engines.local.devices import device_variables, devices_of, lack_of_devices
    from pai_runtime.engines.local.entering import enter
    from pai_runtime.engines.local.launch import Bind, Launch
    from pai_runtime.engines.local.machine import OPTIONS, LocalEngine, NewLocalRun
    from pai_runtime.engines.local.reader import LocalRunReader
    from pai_runtime.engines.local.request import LocalRequest
    from pai_runtime.engines.local.site import Site
    from pai_runtime.engines.local.storages import check_storages, image_binds
    from pai_runtime.engines.local.task import TaskSettings
    from pai_task.supervisor.piped_secrets import write_secrets
    from pai_task.supervisor.process_tree import adopt_orphans, end_with_parent
    from pai_task.supervisor.recording import cannot_run

PIPED_SUPERVISOR: Final = "pai_task.supervisor.piped"
"""The module whose ``main`` supervises a task on another machine; see there."""

PIPED_GROUP: Final = "pai_task.supervisor.piped_group"
"""The module whose ``main`` supervises many tasks on another machine; see there."""

__all__ = [
    "LOGS",
    "OPTIONS",
    "PIPED_GROUP",
    "PIPED_SUPERVISOR",
    "RECORD",
    "SHARED",
    "STOP_SIGNALS",
    "WORK",
    "Bind",
    "Folder",
    "Launch",
    "LaunchOptions",
    "LocalEngine",
    "LocalRequest",
    "LocalRunReader",
    "NewLocalRun",
    "Site",
    "TaskName",
    "TaskSettings",
    "adopt_orphans",
    "cannot_run",
    "check_address",
    "check_storages",
    "device_variables",
    "devices_of",
    "end_with_parent",
    "enter",
    "hook_argv",
    "image_binds",
    "keep_to_ourselves",
    "killed_by",
    "lack_of_devices",
    "local_environment",
    "placement",
    "python_argv",
    "secrets_among",
    "user_directory",
    "write_secrets",
]

_PLACES: Final = {
    "Bind": "pai_runtime.engines.local.launch",
    "Launch": "pai_runtime.engines.local.launch",
    "LocalEngine": "pai_runtime.engines.local.machine",
    "LocalRequest": "pai_runtime.engines.local.request",
    "LocalRunReader": "pai_runtime.engines.local.reader",
    "NewLocalRun": "pai_runtime.engines.local.machine",
    "OPTIONS": "pai_runtime.engines.local.machine",
    "Site": "pai_runtime.engines.local.site",
    "TaskSettings": "pai_runtime.engines.local.task",
    "adopt_orphans": "pai_task.supervisor.process_tree",
    "cannot_run": "pai_task.supervisor.recording",
    "check_address": "pai_runtime.engines.local.addresses",
    "check_storages": "pai_runtime.engines.local.storages",
    "device_variables": "pai_runtime.engines.local.devices",
    "devices_of": "pai_runtime.engines.local.devices",
    "end_with_parent": "pai_task.supervisor.process_tree",
    "enter": "pai_runtime.engines.local.entering",
    "image_binds": "pai_runtime.engines.local.storages",
    "lack_of_devices": "pai_runtime.engines.local.devices",
    "user_directory": "pai_document.configuration_files",
    "write_secrets": "pai_task.supervisor.piped_secrets",
}
"""The module of each that is imported late."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
