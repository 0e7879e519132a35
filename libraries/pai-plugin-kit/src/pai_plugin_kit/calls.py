"""Calls of a plugin's hooks, as the host calls them, but in the process of the test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pai_document.problems import Problems
from pai_document.schemas import located_in
from pai_runtime.host.host import check_parameters
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.host.signatures import declared_arguments
from pai_runtime.job.model import plugin_id
from pai_runtime.plugin import Task, Use
from pai_task.record import replace

_ROLE = "worker"


def make_use(plugin: str, parameters: Mapping[str, Any] | None = None, **fields: Any) -> Use:
    """Return a use of an installed plugin, by its id or short name, in a job with one role.

    `fields` replace those of the use, such as ``failure_policy="ignore"``. Raises `Unavailable` if the plugin
    cannot be used, and `InvalidInput` if the parameters do not match the schema in its manifest.
    """
    found, problems = given_host(None).find(plugin_id(plugin)), Problems()
    check_parameters(found, parameters or {}, problems, located_in("job.yaml"))
    problems.check()
    roles = (_ROLE,)
    use = Use(found.id, "use", parameters or {}, "fail", "job.yaml:1:1", roles, roles)
    return replace(use, **fields)


def make_task(folder: Path = Path("/pai/task"), **fields: Any) -> Task:
    """Return a task, ``worker/0`` of one; `fields` replace its own. Hooks write below `folder`."""
    task = Task(
        job="example",
        role=_ROLE,
        index=0,
        instances={_ROLE: 1},
        ports={"ssh": (15000,), "http": (15001,)},
        folder=folder,
        user="me",
        run="example",
    )
    return replace(task, **fields)


def call(hook: str, use: Use, task: Task | None = None, **more: Any) -> Any:
    """Return what a hook of the use's plugin returns, called with those arguments that it declares.

    `task` is one of `make_task` if it is left out; `more` are the arguments of a hook that has others, such
    as `record`. What the hook raises passes as it is. Raises `PluginError` if the plugin cannot be imported,
    and AttributeError if it has no such hook.
    """
    host = given_host(None)
    plugin = host.find(use.plugin)
    function = getattr(host.load(plugin).manager.get_plugin(plugin.id), hook)
    given = {"use": use, "task": task or make_task(), **more}
    return function(*(given[name] for name in declared_arguments(function)))
