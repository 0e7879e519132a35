"""The plan of one task: all that is decided before the user's command starts, as data.

`Plan.to_json` and `Plan.from_json` are the two directions of the versioned JSON document that
``plan.schema.json`` describes. Secrets appear as placeholders only (`pai_runtime.task.placeholders`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from dataclasses import dataclass as record
    from dataclasses import field
    from typing import Any

    from pai_runtime.task.vocabulary import Event, FailurePolicy, MountKind, Phase, Restart
else:
    from pai_runtime.task.record import field, record

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
    its own (`pai_runtime.task.layout.SHARED`), which may be the same file for all.
    """

    platform: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the variables as a JSON object."""
        return {"platform": dict(self.platform), "peers": dict(self.peers)}


_LISTS = ("roles", "secrets", "via", "capabilities")


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
    def label(self) -> str:
        """The use in messages: name, plugin, distribution and version, file:line:column."""
        return f"'{self.name}' ({self.plugin}, {self.distribution} {self.version}, {self.origin})"

    @property
    def origin(self) -> str:
        """The position of the use, followed by the places through which the job came to it."""
        return " ← ".join((self.source, *self.via))

    def to_json(self) -> dict[str, Any]:
        """Return the use's part of the plan's JSON document."""
        return {
            "name": self.name,
            "plugin": self.plugin,
            "distribution": self.distribution,
            "version": self.version,
            "digest": self.digest,
            "parameters": dict(self.parameters),
            "failurePolicy": self.failure_policy,
            "source": self.source,
            "roles": list(self.roles),
            "pluginRoles": list(self.plugin_roles),
            "secrets": list(self.secrets),
            "via": list(self.via),
            "capabilities": list(self.capabilities),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> UseRecord:
        """Read the output of `to_json`."""
        fields = {**document, **{name: tuple(document[name]) for name in _LISTS}}
        policy, plugin_roles = fields.pop("failurePolicy"), tuple(fields.pop("pluginRoles"))
        return cls(failure_policy=policy, plugin_roles=plugin_roles, **fields)


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
    """

    name: str
    script: str
    probe: str | None = None
    ready_within: float = 60
    restart: Restart = "on-failure"
    required: bool = False
    address: str | None = None
    linger: float = 0


@record(frozen=True)
class PlannedService:
    """A service, with the index of its use."""

    use: int
    service: Service


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


@record(frozen=True)
class PlannedRule:
    """An entry of an exit spec, for the analysis of failures, with the index of its use."""

    use: int
    rule: Mapping[str, Any]


@record(frozen=True)
class Command:
    """The user's command as one shell script; `source` is the position of the role's commands.

    `nounset` makes the shell treat an unset variable as an error.
    """

    script: str
    source: str
    nounset: bool = False


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
    timeout: float = 0
    gang: bool = True
    strict_callbacks: bool = False
    warnings: tuple[str, ...] = ()
    shared: SharedVariables = field(default_factory=SharedVariables)
    permanent_codes: tuple[int, ...] = ()
    listed_codes: tuple[int, ...] | None = None
    refused: tuple[str, ...] = ()

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

    def to_json(self, *, whole: bool = True) -> dict[str, Any]:
        """Return the plan as a JSON document, equal for equal plans; without `shared` if not `whole`."""
        document = self._own_to_json()
        return {**document, "shared": self.shared.to_json()} if whole else document

    def _own_to_json(self) -> dict[str, Any]:
        return {
            "planVersion": VERSION,
            "job": self.job,
            "role": self.role,
            "index": self.index,
            "folder": self.folder,
            "instances": dict(self.instances),
            "ports": {label: list(ports) for label, ports in self.ports.items()},
            "environment": [
                {"name": variable.name, "value": variable.value, "source": variable.source}
                for variable in self.environment
            ],
            "uses": [use.to_json() for use in self.uses],
            "steps": [_step_to_json(step) for step in self.steps],
            "command": {
                "script": self.command.script,
                "source": self.command.source,
                "nounset": self.command.nounset,
            },
            "services": [_service_to_json(planned) for planned in self.services],
            "mounts": [_mount_to_json(planned) for planned in self.mounts],
            "exitRules": [{"use": planned.use, "rule": dict(planned.rule)} for planned in self.exit_rules],
            "hold": self.hold,
            "gang": self.gang,
            "strictCallbacks": self.strict_callbacks,
            "warnings": list(self.warnings),
            **({"timeout": self.timeout} if self.timeout else {}),
            **({"permanentCodes": list(self.permanent_codes)} if self.permanent_codes else {}),
            **({} if self.listed_codes is None else {"listedCodes": list(self.listed_codes)}),
            **({"refused": list(self.refused)} if self.refused else {}),
        }

    @classmethod
    def from_json(cls, document: Any) -> Plan:
        """Parse the output of a whole `to_json`. Raises `PlanError` if it is invalid."""
        version = document.get("planVersion") if isinstance(document, dict) else None
        if version != VERSION:
            raise PlanError(f"not a plan of version {VERSION}: its planVersion is {version!r}")
        _check(document, _SHAPE, "")
        try:
            plan = cls(
                job=document["job"],
                role=document["role"],
                index=document["index"],
                folder=document["folder"],
                instances=document["instances"],
                ports={label: tuple(ports) for label, ports in document["ports"].items()},
                environment=tuple(Variable(**variable) for variable in document["environment"]),
                uses=tuple(map(UseRecord.from_json, document["uses"])),
                steps=tuple(
                    Step(failure_policy=step["failurePolicy"], **_without(step, "failurePolicy"))
                    for step in document["steps"]
                ),
                command=Command(**document["command"]),
                services=tuple(map(_service_from_json, document["services"])),
                mounts=tuple(map(_mount_from_json, document["mounts"])),
                exit_rules=tuple(PlannedRule(**planned) for planned in document["exitRules"]),
                hold=document["hold"],
                timeout=document.get("timeout", 0),
                gang=document["gang"],
                strict_callbacks=document["strictCallbacks"],
                warnings=tuple(document["warnings"]),
                shared=SharedVariables(**document["shared"]),
                permanent_codes=tuple(document.get("permanentCodes", ())),
                listed_codes=tuple(document["listedCodes"]) if "listedCodes" in document else None,
                refused=tuple(document.get("refused", ())),
            )
        except (KeyError, TypeError) as error:
            raise PlanError(f"not a plan: {error!r}") from error
        for part in (plan.steps, plan.services, plan.mounts, plan.exit_rules):
            for each in part:
                if each.use >= len(plan.uses):
                    raise PlanError(f"not a plan: a part of it is of use {each.use}, and there is none")
        return plan


_TEXT, _FLAG, _ANY = (str,), (bool,), (dict,)
_TEXTS = [_TEXT]
_NUMBER, _SECONDS = (int,), (int, float)
_EACH = "*"
_MOST = 2**31

_SHAPE: Any = {
    **dict.fromkeys(("job", "role", "folder"), _TEXT),
    **dict.fromkeys(("gang", "strictCallbacks"), _FLAG),
    "index": _NUMBER,
    "instances": {_EACH: _NUMBER},
    "ports": {_EACH: [_NUMBER]},
    "environment": [dict.fromkeys(("name", "value", "source"), _TEXT)],
    "uses": [
        {
            **dict.fromkeys(("name", "plugin", "distribution", "version", "failurePolicy", "source"), _TEXT),
            **dict.fromkeys(("roles", "pluginRoles", "secrets", "via", "capabilities"), _TEXTS),
            "digest": (str, type(None)),
            "parameters": _ANY,
        }
    ],
    "steps": [{**dict.fromkeys(("phase", "failurePolicy", "script", "hook"), _TEXT), "use": _NUMBER}],
    "command": {"script": _TEXT, "source": _TEXT, "nounset": _FLAG},
    "services": [
        {
            **dict.fromkeys(("name", "script", "restart"), _TEXT),
            **dict.fromkeys(("probe", "address"), (str, type(None))),
            **dict.fromkeys(("readyWithin", "linger"), _SECONDS),
            "use": _NUMBER,
            "required": _FLAG,
        }
    ],
    "mounts": [
        {**dict.fromkeys(("path", "source", "kind", "subPath"), _TEXT), "use": _NUMBER, "readOnly": _FLAG}
    ],
    "exitRules": [{"use": _NUMBER, "rule": _ANY}],
    "hold": _SECONDS,
    "timeout": _SECONDS,
    "warnings": _TEXTS,
    "shared": {"platform": {_EACH: _TEXT}, "peers": {_EACH: _TEXT}},
    "permanentCodes": [_NUMBER],
    "listedCodes": [_NUMBER],
    "refused": _TEXTS,
}
"""The types in the document, as in its schema; missing fields are found when it is read."""


def _check(value: Any, shape: Any, path: str) -> None:
    """Raise `PlanError` for a value of the wrong type, and for a number that is negative or too large."""
    if isinstance(shape, tuple):
        if type(value) not in shape:
            names = " or ".join(kind.__name__ for kind in shape)
            raise PlanError(f"not a plan: {path}: expected {names}, found {type(value).__name__}")
        if type(value) in _SECONDS and not 0 <= value < _MOST:
            raise PlanError(f"not a plan: {path}: expected a number from 0 to {_MOST}, found another one")
        return
    if type(value) is not type(shape):
        kind = type(shape).__name__
        raise PlanError(f"not a plan: {path}: expected {kind}, found {type(value).__name__}")
    if isinstance(shape, list):
        for index, each in enumerate(value):
            _check(each, shape[0], f"{path}[{index}]")
    elif shape.get(_EACH) != _TEXT or not set(map(type, value.values())) <= {str}:  # many variables, quickly
        for key, each in value.items():
            if (inner := shape.get(key) or shape.get(_EACH)) is not None:
                _check(each, inner, f"{path}.{key}" if path else key)


def plans_to_json(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the JSON document of several plans of one job, with their shared variables once."""
    return {
        "shared": plans[0].shared.to_json(),
        "plans": [plan.to_json(whole=False) for plan in plans],
    }


def _step_to_json(step: Step) -> dict[str, Any]:
    document: dict[str, Any] = {"phase": step.phase, "use": step.use, "failurePolicy": step.failure_policy}
    if step.script is not None:
        document["script"] = step.script
    if step.hook is not None:
        document["hook"] = step.hook
    return document


def _service_to_json(planned: PlannedService) -> dict[str, Any]:
    service = planned.service
    return {
        "name": service.name,
        "use": planned.use,
        "script": service.script,
        "probe": service.probe,
        "readyWithin": service.ready_within,
        "restart": service.restart,
        "required": service.required,
        "address": service.address,
        "linger": service.linger,
    }


def _service_from_json(document: Mapping[str, Any]) -> PlannedService:
    fields = _without(_without(document, "use"), "readyWithin")
    return PlannedService(document["use"], Service(ready_within=document["readyWithin"], **fields))


def _mount_to_json(planned: PlannedMount) -> dict[str, Any]:
    mount = planned.mount
    return {
        "path": mount.path,
        "use": planned.use,
        "source": mount.source,
        "kind": mount.kind,
        "subPath": mount.sub_path,
        "readOnly": mount.read_only,
    }


def _mount_from_json(document: Mapping[str, Any]) -> PlannedMount:
    path, source, kind = document["path"], document["source"], document["kind"]
    mount = Mount(path, source, kind, document["subPath"], document["readOnly"])
    return PlannedMount(document["use"], mount)


def _without(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}
