"""The plan of one task: all that is decided before the user's command starts, as data.

`Plan.to_json` and `Plan.from_json` are the two directions of the versioned JSON document that
``plan.schema.json`` describes. Secrets appear as placeholders only (`pai_task.placeholders`).
"""

from __future__ import annotations

from pai_task.record import field, record
from pai_task.record_json import from_json, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from pai_task.vocabulary import Event, FailurePolicy, MountKind, Phase, Restart

    _T = TypeVar("_T")

VERSION = 1

EVENTS: tuple[Event, ...] = ("taskStarts", "taskSucceeds", "taskFails", "taskExits")
EXIT_EVENTS = EVENTS[1:]
"""The events after the user's command."""

PLATFORM = "platform"
PEERS = "peers"
"""Sources of variables: the platform's of this task or job, and those that tell where its tasks are."""


class PlanError(Exception):
    """The exception for a document that is not a plan of a version that this supervisor knows."""


@record(frozen=True)
class Variable:
    """An environment variable; its `source` is `PLATFORM`, `PEERS`, or the name of the use that sets it."""

    name: str
    value: str
    source: str


@record(frozen=True)
class SharedVariables:
    """The variables that all tasks of a job share: about the job, and about the places of its tasks.

    Their size grows with the number of tasks, so they are stored once: a task's folder has them in a file of
    its own (`pai_task.layout.SHARED`), which may be the same file for all.
    """

    platform: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)


@record(frozen=True)
class UseRecord:
    """One use of a plugin as the plan records it: the plugin, its parameters and its source.

    `roles` have this use, `plugin_roles` any use of the plugin.
    `digest` is that of the distribution's code, None for an editable one. `secrets` names the platform's
    secrets that its hooks are given. `via` are the places by which the job came to a definition that `source`
    is in, nearest first. `capabilities` are those of the kernel that it needs where the task is root's.
    """

    name: str
    plugin: str
    distribution: str
    version: str
    digest: str | None
    parameters: Mapping[str, Any]
    failure_policy: FailurePolicy
    source: str
    roles: tuple[str, ...] = ()
    plugin_roles: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()

    @property
    def short_label(self) -> str:
        """The use where it has to be short: name and plugin."""
        return f"'{self.name}' ({self.plugin})"

    @property
    def label(self) -> str:
        """The use in messages: name, plugin, distribution and version, file:line:column."""
        return f"'{self.name}' ({self.plugin}, {self.distribution} {self.version}, {self.origin})"

    @property
    def origin(self) -> str:
        """The position of the use, followed by the places through which the job came to it."""
        return " ← ".join((self.source, *self.via))


@record(frozen=True)
class Step:
    """A step of one use in one phase: a shell script, or the plugin's own hook of that name.

    `failure_policy` is the use's, unless the callback has its own.
    """

    phase: Phase
    use: int
    failure_policy: FailurePolicy
    script: str | None = None
    hook: str | None = None

    __omitted__ = ("script", "hook")


@record(frozen=True)
class Service:
    """A background process beside the user's command, started after the start steps of its use.

    `script` runs it in the foreground of its own shell, with the environment of that moment; its output
    goes to ``runtime.log``. `probe` is a script that exits with 0 once it is ready, retried for
    `ready_within` seconds. Only a `required` service makes the task wait until it is ready, and fails the
    task if it never is. `restart` says when it is restarted, with growing pauses.

    `address` is where users find it once it is ready; variables of its environment are expanded, as in
    ``http://$PAI_CONTAINER_HOST_IP:6006``. When the task has ended on its own, and its exit callbacks are
    done, the service and the task continue for `linger` seconds, unless the task is told to stop.

    With `when_silent` it is started once the user's command has written nothing for so many seconds; an
    `ancestor` also when a program is run in the task, as by ``pai-runtime exec``. A line of its output
    that begins with ``[NOTE] `` is shown to people while the task runs, and kept in its exit record. One
    that begins with ``[AT] `` says where the command is; the latest is kept, and shown beside a note that
    all other tasks of the role have. If there is `ancestor`, it is the arguments of our interpreter, as
    in ``("-m", "some.module")``, that run such a service in place of `script`, as the parent of the
    command, where only an ancestor may trace that one (``kernel.yama.ptrace_scope`` 1).
    """

    name: str
    script: str
    probe: str | None = None
    ready_within: float = 60
    restart: Restart = "on-failure"
    required: bool = False
    address: str | None = None
    linger: float = 0
    when_silent: float = 0
    ancestor: tuple[str, ...] = ()

    __omitted__ = ("when_silent", "ancestor")


@record(frozen=True)
class PlannedService:
    """A service, with the index of its use."""

    use: int
    service: Service

    def to_json(self) -> dict[str, Any]:
        """Return the service as a JSON object, with the index among its fields."""
        return _with_use(self.service, self.use)

    @classmethod
    def from_json(cls, document: Any) -> PlannedService:
        """Parse the output of `to_json`. Raises `ValueError` if it is invalid."""
        return cls(*_use_and(Service, document))


@record(frozen=True)
class Mount:
    """A directory from elsewhere that the task's engine mounts at `path`, an absolute path in the task.

    `source` is the name of one of the cluster's storages, or ``server:/path`` of kind ``nfs``; `sub_path`
    is the directory in it that is mounted, created if missing.
    """

    path: str
    source: str
    kind: MountKind = "storage"
    sub_path: str = ""
    read_only: bool = False


@record(frozen=True)
class PlannedMount:
    """A mount, with the index of its use."""

    use: int
    mount: Mount

    def to_json(self) -> dict[str, Any]:
        """Return the mount as a JSON object, with the index among its fields."""
        return _with_use(self.mount, self.use)

    @classmethod
    def from_json(cls, document: Any) -> PlannedMount:
        """Parse the output of `to_json`. Raises `ValueError` if it is invalid."""
        return cls(*_use_and(Mount, document))


@record(frozen=True)
class PlannedRule:
    """An entry of an exit spec, for the analysis of failures, with the index of its use."""

    use: int
    rule: Mapping[str, Any]


@record(frozen=True)
class OnPreemption:
    """What is done for at most `seconds` before a command is told to end, so that it can save its work.

    `signal` is the name of the one that its processes get, and `script` a shell script that runs beside them;
    either may be empty.
    """

    seconds: float
    signal: str = ""
    script: str = ""


@record(frozen=True)
class Command:
    """The user's command as one shell script; `source` is the position of the role's commands.

    `nounset` makes the shell treat an unset variable as an error.
    """

    script: str
    source: str
    nounset: bool = False
    on_preemption: OnPreemption | None = None

    __omitted__ = ("on_preemption",)


@record(frozen=True)
class Plan:
    """The plan of one task; `folder` is the directory of its plan, logs and record in its container.

    `environment` is what this task alone has, and comes after what is `shared`.
    `gang` says that all tasks of the job live together.
    `hold` says for how many seconds a task that failed is kept as it is, for somebody to look at it.
    `timeout` says after how many seconds the task is ended; 0 means never.
    `strict_callbacks` says that a callback that fails after the command fails the task.
    `permanent_codes` are the exit codes of the task after which a retry is in vain, in order.
    `listed_codes` are those that its platform knows, if it misreads all others; None: any may be told.
    `refused` are distributions with plugins of which none may be used: hooks import no module of theirs.
    """

    job: str
    role: str
    index: int
    folder: str
    instances: Mapping[str, int]
    ports: Mapping[str, tuple[int, ...]]
    environment: tuple[Variable, ...]
    uses: tuple[UseRecord, ...]
    steps: tuple[Step, ...]
    command: Command
    services: tuple[PlannedService, ...] = ()
    mounts: tuple[PlannedMount, ...] = ()
    exit_rules: tuple[PlannedRule, ...] = ()
    hold: float = 0
    gang: bool = True
    strict_callbacks: bool = False
    warnings: tuple[str, ...] = ()
    timeout: float = 0
    permanent_codes: tuple[int, ...] = ()
    listed_codes: tuple[int, ...] | None = None
    refused: tuple[str, ...] = ()
    shared: SharedVariables = field(default_factory=SharedVariables)

    __omitted__ = ("timeout", "permanent_codes", "listed_codes", "refused")

    def variables(self) -> Iterator[Variable]:
        """Yield the variables that are set before the first step; the last one of a name takes precedence."""
        for name, value in self.shared.platform.items():
            yield Variable(name, value, PLATFORM)
        for name, value in self.shared.peers.items():
            yield Variable(name, value, PEERS)
        yield from self.environment

    def steps_of(self, phase: Phase, use: int | None = None) -> list[Step]:
        """Return the steps of a phase, of one use or of all."""
        if use is None:
            return [step for step in self.steps if step.phase == phase]
        by_use: dict[tuple[Phase, int], list[Step]] | None = vars(self).get("_steps_by_use")
        if by_use is None:
            by_use = vars(self)["_steps_by_use"] = {}
            for step in self.steps:
                by_use.setdefault((step.phase, step.use), []).append(step)
        return by_use.get((phase, use), [])

    def run_ends(self, *, alone: bool) -> list[Step]:
        """Return the steps for the end of the run.

        They are all if only this task is asked (`alone`), else those of uses whose first task it is.
        """
        steps = self.steps_of("runEnds")
        return [step for step in steps if alone or self.is_first_of(self.uses[step.use])]

    def is_first_of(self, use: UseRecord) -> bool:
        """Return whether this is the first task of those that have a use."""
        return self.index == 0 and use.roles[:1] == (self.role,)

    def to_json(self, *, whole: bool = True) -> dict[str, Any]:
        """Return the plan as a JSON document, equal for equal plans; without `shared` if not `whole`."""
        document = {"planVersion": VERSION, **to_json(self)}
        if not whole:
            del document["shared"]
        return document

    @classmethod
    def from_json(cls, document: Any) -> Plan:
        """Parse the output of a whole `to_json`. Raises `PlanError` if it is invalid."""
        fields = dict(document) if isinstance(document, dict) else {}
        version = fields.pop("planVersion", None)
        if version != VERSION:
            raise PlanError(f"not a plan of version {VERSION}: its planVersion is {version!r}")
        try:
            plan = from_json(cls, fields)
        except ValueError as error:
            raise PlanError(f"not a plan: {error}") from error
        for part in (plan.steps, plan.services, plan.mounts, plan.exit_rules):
            for each in part:
                if each.use >= len(plan.uses):
                    raise PlanError(f"not a plan: a part of it is of use {each.use}, and there is none")
        return plan


def plans_to_json(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the JSON document of several plans of one job, with their shared variables once."""
    return {
        "shared": to_json(plans[0].shared),
        "plans": [plan.to_json(whole=False) for plan in plans],
    }


def _with_use(planned: Service | Mount, use: int) -> dict[str, Any]:
    """Return what a use has planned as a JSON object, with the index of the use after its name."""
    name, *fields = to_json(planned).items()
    return dict([name, ("use", use), *fields])


def _use_and(kind: type[_T], document: Any) -> tuple[int, _T]:
    """Parse the output of `_with_use`."""
    fields = dict(document) if isinstance(document, dict) else {}
    use = fields.pop("use", None)
    if type(use) is not int or use < 0:
        raise ValueError(f"use: expected the index of a use, found {use!r}")
    return use, from_json(kind, fields)
