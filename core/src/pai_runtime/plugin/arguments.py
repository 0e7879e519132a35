"""The arguments of hooks: a use of the plugin, its task, how that failed; and a pod's init container."""

from __future__ import annotations

from pai_task.layout import PRIVATE
from pai_task.record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from pai_task.vocabulary import FailedOutcome, FailurePolicy, Phase


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


@record(frozen=True)
class ContributedRule:
    """An entry of an exit spec, with the id of the plugin that contributed it."""

    plugin: str
    entry: Mapping[str, Any]


@record(frozen=True)
class Failure:
    """The failure of a task, as far as its supervisor knows.

    `outcome` is ``failed``, ``setup-failed`` or ``timeout``. `code` is the task's exit code so far,
    `user_code` the command's own (None: it did not run), `phase` where the outcome was decided, `signal`
    what killed the command or the step, `plugin` the id of the plugin whose step failed the setup.
    `oom_kills` is how many processes the kernel's out-of-memory killer killed in the task's cgroup while it
    ran (None: not known). `tails` are the last 4 KB of the user's log and of ``runtime.log``, for
    `read_logs`; `logs` is the directory of the logs (None: ``logs`` in the task's folder). `rules` are the
    exit rules that the job's uses contribute, in order.
    """

    outcome: FailedOutcome
    code: int
    phase: Phase
    user_code: int | None = None
    signal: int | None = None
    plugin: str | None = None
    oom_kills: int | None = None
    tails: tuple[str, str] = ("", "")
    logs: str | None = None
    rules: tuple[ContributedRule, ...] = ()


@record(frozen=True)
class InitContainer:
    """The init container that an init plugin runs in, as the cluster has configured it.

    `name` is the name under which the plugin is configured there, `parameters` match the schema in its
    manifest. `folder` is the directory that the pod's containers share, and the only one to write to;
    ``PAI_RUNTIME_DIR`` and the other directories below it are in `environment`, the container's variables
    with the defaults of those that are unset. Lines that are appended to the file ``env`` in
    ``PAI_RUNTIME_DIR`` set variables for the task, in the format of ``$PAI_ENV``. `say` adds a line to
    ``init.log``.
    """

    name: str
    parameters: Mapping[str, Any]
    folder: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
