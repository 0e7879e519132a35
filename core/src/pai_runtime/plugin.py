"""All that the author of a plugin imports.

A plugin is a module with some of the functions that `pai_runtime.hooks` describes, each marked with
`hookimpl`, and a file ``manifest.json`` beside it::

    from pai_runtime.task.vocabulary import Behavior, Event, FailedOutcome, FailurePolicy, Phase
from pai_runtime.plugin import Contribution, Shell, Task, Use, hookimpl


    @hookimpl
    def pai_prerequisite(use: Use, task: Task) -> Contribution:
        greeting = use.parameters.get("greeting", "hello")
        return Contribution(
            environment={"GREETING": greeting},
            steps=[Shell("taskStarts", 'echo "$GREETING"')],
        )

Its distribution names it in the entry point group ``pai_runtime.plugins``, under its id::

    [project.entry-points."pai_runtime.plugins"]
    "org.example.greet" = "example_greet"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pluggy

from pai_runtime.task.analysis import Analysis
from pai_runtime.task.layout import PRIVATE
from pai_runtime.task.plan import EVENTS, Mount, Service

__all__ = [
    "API_VERSION",
    "EVENTS",
    "Analysis",
    "Behavior",
    "ContributedRule",
    "Contribution",
    "Event",
    "Failure",
    "FailurePolicy",
    "Mount",
    "Service",
    "Shell",
    "Task",
    "Use",
    "hookimpl",
]

API_VERSION: Final = 1
"""The version of the contract in `pai_runtime.hooks`; a manifest says which one its plugin needs."""

PROJECT: Final = "pai_runtime"

hookimpl: Final = pluggy.HookimplMarker(PROJECT)
"""Marks a function as the implementation of the hook of its name."""


@dataclass(frozen=True)
class Use:
    """One use of a plugin by a job.

    `name` is the prerequisite's, or the plugin's short name for one in ``extras``. `parameters` fit the
    schema in the plugin's manifest, all references in them resolved. A secret in them is a placeholder
    while the plan is made (use it as any other text; never look into it), and its value in `pai_init` and
    the lifecycle hooks. `source` is ``file:line:column``. `roles` are the task roles that it is for, in
    the job's order. `secrets` are those of the platform's that the use's `Contribution` asks for, as far as
    the platform has them, in the same hooks; while the plan is made there are none.
    """

    plugin: str
    name: str
    parameters: Mapping[str, Any]
    failure_policy: FailurePolicy
    source: str
    roles: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Task:
    """The task that a use is part of.

    `instances` has the number of tasks of every role, `ports` this task's ports by label. `folder` is the
    task's own folder in its container: what a hook writes, it writes below. `gang` says that all tasks of
    the job live together: none is started, or tried again, by itself.
    """

    job: str
    role: str
    index: int
    instances: Mapping[str, int]
    ports: Mapping[str, tuple[int, ...]]
    folder: Path
    gang: bool = True

    @property
    def private(self) -> Path:
        """A folder for what must not outlive the task, such as keys. Only the task's user may look into it.

        It is in memory where that can be, and goes with all that is in it after the exit callbacks.
        """
        return self.folder / PRIVATE


@dataclass(frozen=True)
class Shell:
    """A shell script for an event, run in one shell. `failure_policy` None means the use's own."""

    event: Event
    script: str
    failure_policy: FailurePolicy | None = None


@dataclass(frozen=True)
class Contribution:
    """What one use adds to the plan of one task.

    `environment` is set before the first step and holds for the user's command too. Of several `steps` for
    one event the first runs first. `secrets` names secrets of the platform that the use's hooks are to have
    in ``use.secrets``: ``run``, a random text that the tasks of one run share and nobody else knows; on a
    cluster also what the user has there, as JSON, such as ``jobSSH`` and ``sshKeys``. `exit_rules` are
    entries of an exit spec, for the plugin that analyses a failure. `warnings` are said before the job runs.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[Shell] = ()
    services: Sequence[Service] = ()
    mounts: Sequence[Mount] = ()
    secrets: Sequence[str] = ()
    exit_rules: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class ContributedRule:
    """An entry of an exit spec, and the id of the plugin that contributed it."""

    plugin: str
    entry: Mapping[str, Any]


@dataclass(frozen=True)
class Failure:
    """How a task went that did not end well, and what its supervisor knows of that.

    `outcome` is ``failed``, ``setup-failed`` or ``timeout``. `code` is the task's exit code so far,
    `user_code` the command's own (None: it did not run), `phase` where the outcome was decided, `signal`
    what killed the command or the step, `plugin` the id of the plugin whose step failed the setup.
    `oom_kills` is how many processes the kernel ended for want of memory in the task's cgroup while it ran
    (None: not known). `tails` are the last 4 KB of the user's log and of ``runtime.log``; the files in
    ``logs`` of the task's folder lack them where the disk is full. `rules` are those that the job's uses
    contribute, in their order.
    """

    outcome: FailedOutcome
    code: int
    phase: Phase
    user_code: int | None = None
    signal: int | None = None
    plugin: str | None = None
    oom_kills: int | None = None
    tails: tuple[str, str] = ("", "")
    rules: tuple[ContributedRule, ...] = ()
