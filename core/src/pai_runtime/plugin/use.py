"""The arguments of a hook: the use of the plugin, and the task that it belongs to."""

from __future__ import annotations

from pai_runtime.task.layout import PRIVATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import dataclass as record
    from dataclasses import field
    from pathlib import Path
    from typing import Any

    from pai_runtime.task.vocabulary import FailurePolicy
else:
    from pai_runtime.task.record import field, record


@record(frozen=True)
class Use:
    """One use of a plugin by a job, with its resolved parameters.

    `name` is that of the prerequisite, or the plugin's short name for a use in ``extras``. `parameters` match
    the schema in the plugin's manifest; all references in them are resolved. A secret in them is a
    placeholder while the plan is made (treat it as an opaque string; `has_secret` tells), and its value in
    `pai_init` and the lifecycle hooks. `source` is ``file:line:column``. `roles` are the task roles that it
    applies to, in the job's order; `plugin_roles` those that any use of the plugin applies to. `secrets` are
    the platform's secrets that the use's `Contribution` requests, as far as the platform has them, in the
    same hooks; it is empty while the plan is made.
    """

    plugin: str
    name: str
    parameters: Mapping[str, Any]
    failure_policy: FailurePolicy
    source: str
    roles: tuple[str, ...] = ()
    plugin_roles: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@record(frozen=True)
class Task:
    """The task that a use belongs to.

    `instances` has the number of tasks of every role, `ports` this task's ports by label. `folder` is the
    task's own directory in its container; hooks write only below it. `gang` says that all tasks of the job
    start together: none is started, or retried, on its own. `user` is who runs the job, and `run` the name of
    this run of it: `PAI_USER_NAME` and `PAI_FRAMEWORK_NAME` in the task.
    """

    job: str
    role: str
    index: int
    instances: Mapping[str, int]
    ports: Mapping[str, tuple[int, ...]]
    folder: Path
    gang: bool = True
    user: str = ""
    run: str = ""

    @property
    def private(self) -> Path:
        """A directory for what must not outlive the task, such as keys; private to the task's user.

        It is in memory where possible, and is removed after the exit callbacks.
        """
        return self.folder / PRIVATE
