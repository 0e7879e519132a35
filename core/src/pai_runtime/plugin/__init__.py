"""The public API for plugins; what is not in `__all__` here is not public.

A plugin is a module with some of the functions that `pai_runtime.hooks` describes, each marked with
`hookimpl`, and a file ``manifest.json`` beside it::

    from pai_runtime.plugin import Contribution, ShellStep, Task, Use, hookimpl


    @hookimpl
    def pai_prerequisite(use: Use, task: Task) -> Contribution:
        greeting = use.parameters.get("greeting", "hello")
        return Contribution(
            environment={"GREETING": greeting},
            steps=[ShellStep("taskStarts", 'echo "$GREETING"')],
        )

Its distribution names it in the entry point group ``pai_runtime.plugins``, under its id::

    [project.entry-points."pai_runtime.plugins"]
    "org.example.greet" = "example_greet"

Every process that runs a hook loads this package, so it imports no more than these types need.
"""

from __future__ import annotations

from pai_runtime.plugin.arguments import ContributedRule, Failure, InitContainer, Task, Use
from pai_runtime.plugin.backoff import backoff, retry_after
from pai_runtime.plugin.contribution import Contribution, ShellStep
from pai_runtime.plugin.errors import UserError
from pai_runtime.plugin.files import YamlFile, read_logs, read_yaml
from pai_runtime.plugin.output import FailedTask, Output, RunningTask, TaskLog
from pai_runtime.plugin.peers import task_variables
from pai_runtime.plugin.scripts import BUNDLE, port_is_taken
from pai_task.analysis import Analysis
from pai_task.likely_line import likely_line
from pai_task.names import framework_name, with_user_and_job
from pai_task.placeholders import has_secret
from pai_task.plan import EVENTS, Mount, Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, TypeVar

    from pai_task.vocabulary import Behavior, Event, FailurePolicy

    Hook = TypeVar("Hook", bound=Callable[..., Any])

__all__ = [
    "API_VERSION",
    "BUNDLE",
    "EVENTS",
    "Analysis",
    "Behavior",
    "ContributedRule",
    "Contribution",
    "Event",
    "FailedTask",
    "Failure",
    "FailurePolicy",
    "InitContainer",
    "Mount",
    "Output",
    "RunningTask",
    "Service",
    "ShellStep",
    "Task",
    "TaskLog",
    "Use",
    "UserError",
    "YamlFile",
    "backoff",
    "framework_name",
    "has_secret",
    "hookimpl",
    "likely_line",
    "port_is_taken",
    "read_logs",
    "read_yaml",
    "retry_after",
    "task_variables",
    "with_user_and_job",
]

API_VERSION: Final = 1
"""The version of the contract in `pai_runtime.hooks`; a manifest says which one its plugin needs."""

PROJECT: Final = "pai_runtime"


def hookimpl(function: Hook) -> Hook:
    """Mark a function as the implementation of the hook of its name."""
    # As pluggy's marker does, whose import would be most of the time of a short hook.
    setattr(function, f"{PROJECT}_impl", {})
    return function


def __getattr__(name: str) -> object:
    # Annotations need them, and to make them takes the time of `typing`.
    if name in ("Behavior", "Event", "FailurePolicy"):
        from pai_task import vocabulary  # noqa: PLC0415

        return getattr(vocabulary, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
