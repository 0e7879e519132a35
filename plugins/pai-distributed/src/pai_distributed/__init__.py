"""The plugin ``com.microsoft.pai.runtimeplugin.distributed``, for frameworks that train in several tasks."""

import os
from pathlib import Path

from pai_distributed import flight_recorder
from pai_distributed.group import Group, roles_of
from pai_distributed.variables import host_file, variables
from pai_runtime.plugin import Contribution, Task, Use, UserError, hookimpl, task_variables


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution | None:
    """Check the parameters; addresses, and so the variables, may be known in the task only."""
    named = roles_of(use, task)
    if without := [role for role in named if role not in use.plugin_roles]:
        raise UserError(f"roles: the tasks of {', '.join(without)} do not use the plugin, and would not come")
    return None


@hookimpl
def pai_task_starts(use: Use, task: Task) -> None:
    """Set the variables of the task, and write the host file of its group."""
    if task.role not in (roles := roles_of(use, task)):
        return
    told = task_variables(os.environ)
    group = Group(task, roles, told)
    folder = task.folder / "distributed"
    folder.mkdir(exist_ok=True)
    hosts = folder / "hostfile"
    hosts.write_text(host_file(group, use.parameters.get("processes")), "utf-8")
    found = variables(group, use.parameters.get("processes"), str(hosts))
    if len(group.members) > 1:
        recorder = flight_recorder.variables(folder)
        found |= {name: value for name, value in recorder.items() if name not in os.environ}
    with Path(os.environ["PAI_ENV"]).open("a", encoding="utf-8") as settings:
        settings.writelines(f"{name}={value}\n" for name, value in found.items())
