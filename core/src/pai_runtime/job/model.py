"""The complete, typed job, and its meaning for each task role.

What is only a name of something else is a `Value`, which knows where it stands. Parts that the schema
refuses are left out or take their default: they have been reported, and what is left can still be checked
in the same round.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from pai_runtime.document.problems import DocumentPath, Location, Position
from pai_runtime.document.value import Value
from pai_runtime.job.order import dependencies_first
from pai_runtime.task.plan import Command
from pai_runtime.task.record import field, record
from pai_runtime.task.vocabulary import FailurePolicy, RetryOn

PLUGIN_PREFIX: Final = "com.microsoft.pai.runtimeplugin."

PROTOCOL_TYPES: Final = ("dockerimage", "data", "script", "output")
"""The types of prerequisites that the protocol gives a meaning; there may be others."""

_OTHER_SPELLING: Final = {"mountPath": "mountPoint", "mountPoint": "mountPath"}
"""A storage has one or the other."""


PrerequisiteKey = tuple[str, str]
"""The name and the type of a prerequisite, which no two of a job have in common."""


@record(frozen=True)
class Prerequisite:
    """One of the job's prerequisites. `plugin` is None for a passive one, which is only referred to.

    `properties` are what references can name, `parameters` what the plugin is given; `storages` is what it
    lists in ``requireStorages``. One that is `shared` comes from a definition that is not the job's own.
    """

    name: str
    kind: str
    plugin: str | None
    require: tuple[Value, ...]
    failure_policy: FailurePolicy
    properties: Mapping[str, Value]
    parameters: Mapping[str, Value]
    storages: tuple[Value, ...]
    value: Value
    shared: bool = False

    @property
    def key(self) -> PrerequisiteKey:
        """What tells it from all others."""
        return self.name, self.kind

    def property(self, name: str) -> Value | None:
        """A property by its name, or by its other one."""
        return self.properties.get(name) or self.properties.get(_OTHER_SPELLING.get(name, name))


@record(frozen=True)
class Alias:
    """A name in ``extras.reference_prerequisites``: it stands for all that it requires."""

    name: str
    require: tuple[Value, ...]
    value: Value


@record(frozen=True)
class Extra:
    """A use of a plugin in ``extras``. `roles` None means every role."""

    plugin: str
    failure_policy: FailurePolicy
    roles: tuple[Value, ...] | None
    parameters: Mapping[str, Value]
    value: Value

    def is_for(self, role: str) -> bool:
        """Whether the tasks of a role have this use."""
        return self.roles is None or role in (name.text for name in self.roles)


@record(frozen=True)
class Deployed:
    """What a deployment runs before and after the commands of one task role."""

    before: tuple[Value, ...]
    after: tuple[Value, ...]
    value: Value


@record(frozen=True)
class Deployment:
    """A deployment: what it adds to which task roles."""

    name: str
    roles: Mapping[str, Deployed]
    value: Value


@record(frozen=True)
class TaskRole:
    """One task role. `min_failed` and `min_succeeded` are as in ``completion``: None, -1 or a number.

    `refers` are the prerequisites that it calls its data, script and output, by ``$data`` and so on.
    `sku_type` and `sku_number` are what ``extras.hivedScheduler`` says of the machines that it runs on.
    """

    name: str
    instances: int
    min_failed: int | None
    min_succeeded: int | None
    retries: int
    docker_image: Value | None
    refers: Mapping[str, Value]
    prerequisites: tuple[Value, ...]
    commands: tuple[Value, ...]
    cpu: int
    memory_mb: int
    gpu: int
    shm_mb: int
    ports: Mapping[str, int]
    value: Value
    sku_type: Value | None = None
    sku_number: int | None = None

    @property
    def fails_at(self) -> int:
        """How many failed tasks fail the job, by default one; -1, or more than there are: no number does."""
        return self.min_failed or 1

    @property
    def completes_at(self) -> int:
        """How many succeeded tasks complete the job, by default all; -1, or more: no number does."""
        return self.min_succeeded or self.instances

    @property
    def names(self) -> Iterator[tuple[Value, str]]:
        """The names of prerequisites in it, in the order in which they start, with the types expected."""
        yield from ((name, key[1:]) for key, name in self.refers.items())
        yield from ((name, "") for name in self.prerequisites)


@record(frozen=True)
class JobUse:
    """One use of a plugin in a role, its references resolved.

    `position` and `field` are where it is in the job file; `fields` is where each parameter is. One that is
    `shared` is that of a definition which is not the job's own.
    """

    plugin: str
    name: str
    parameters: Mapping[str, Any] = field(repr=False)
    failure_policy: FailurePolicy
    position: Position
    field: str
    fields: Mapping[str, Value]
    shared: bool = False

    def locate(self, path: DocumentPath) -> Location:
        """Where in the job file the value at `path` of the parameters is."""
        if path and path[0] in self.fields:
            return self.fields[str(path[0])].at(path[1:])
        return Location(self.position, self.position, self.field)


@record(frozen=True)
class RoleUses:
    """What a task role uses, in order, and what it runs; with all references resolved."""

    uses: tuple[JobUse, ...]
    command: Command


@record(frozen=True)
class Job:
    """A whole job. `secrets` are the job's own, completed or overridden by those of a secrets file.

    `environment` names variables that tasks get from whoever runs them here. `hold` is for how many seconds a
    task that failed is kept. `gang` says that its tasks live together: none is tried again by itself.
    `code` is a directory, relative to the job file. `first_ports` is for each role a mapping from labels to
    ports; see `pai_runtime.job.ports`. `nounset` is an option of the user's shell;
    `strict_callbacks` says that a callback that fails after the command fails the task.
    `hides_secrets` says that the file has ``******`` in the place of its secrets, as the platform returns it.
    `aliases` are names for prerequisites from outside the job file; once these are in the job, no name means
    an alias. `storages` is what every task mounts, `uses` what each role uses and runs.
    `value` is the whole document.
    """

    value: Value
    name: str
    virtual_cluster: str
    retries: int
    parameters: Value | None
    prerequisites: Mapping[PrerequisiteKey, Prerequisite]
    aliases: Mapping[str, Alias]
    roles: Mapping[str, TaskRole]
    deployments: Mapping[str, Deployment]
    deployment: Value | None
    extras: tuple[Extra, ...]
    storages: tuple[Value, ...]
    environment: tuple[str, ...]
    gang: bool
    hold: float
    code: Value | None
    nounset: bool
    strict_callbacks: bool
    retry_on: RetryOn
    first_ports: Value | None
    hides_secrets: bool
    secrets: Mapping[str, Value] = field(repr=False)
    uses: Mapping[str, RoleUses] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        """Where the document begins."""
        return self.value.position

    @property
    def file(self) -> str:
        """The file that it was read from."""
        return self.value.node.source.file

    @property
    def text(self) -> str:
        """The file as it is written, with the secrets in it."""
        return self.value.node.source.text

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Prerequisite]]:
        """The prerequisites of each name, which differ in their types."""
        found: dict[str, list[Prerequisite]] = {}
        for each in self.prerequisites.values():
            found.setdefault(each.name, []).append(each)
        return found

    def named(self, name: str, kind: str = "") -> Sequence[Prerequisite]:
        """What a name may mean where a prerequisite of a type, or of any, is expected: one, if it is clear.

        One of a type that the protocol does not know may be the data, script or output of a role.
        """
        found = self.by_name.get(name, ())
        if not kind:
            return [each for each in found if each.kind != "dockerimage"] or found
        fitting = [each for each in found if each.kind == kind]
        if fitting or kind == "dockerimage":
            return fitting
        return [each for each in found if each.kind not in PROTOCOL_TYPES]

    def prerequisite(self, name: str, kind: str = "") -> Prerequisite | None:
        """The one that a name means; see `named`."""
        found = self.named(name, kind)
        return found[0] if len(found) == 1 else None

    def label(self, key: PrerequisiteKey) -> str:
        """What messages call a prerequisite: its name, with its type where others have the same name."""
        name, kind = key
        return name if len(self.by_name[name]) == 1 else f"{name} ({kind or 'without a type'})"

    def require(self, key: PrerequisiteKey) -> Sequence[PrerequisiteKey]:
        """What a prerequisite requires, as far as it is in the job."""
        required = (self.prerequisite(each.text) for each in self.prerequisites[key].require)
        return [each.key for each in required if each]

    def used(self, role: TaskRole) -> list[PrerequisiteKey]:
        """What a role uses beside its image, as far as it is in the job, each after what it requires."""
        named = (self.prerequisite(name.text, kind) for name, kind in role.names)
        return dependencies_first((each.key for each in named if each), self.require)[0]

    def docker_images(self) -> Sequence[str]:
        """Each image that a role runs in, as its prerequisite names it."""
        names = [role.docker_image.text for role in self.roles.values() if role.docker_image]
        return sorted({str(self.prerequisites[name, "dockerimage"].value.data.get("uri")) for name in names})


def is_reference(name: str) -> bool:
    """Whether a name means something outside of the file that it stands in."""
    return re.fullmatch("[a-zA-Z0-9_-]*", name) is None


def plugin_id(name: str) -> str:
    """The id that a plugin's name in a job stands for."""
    return name if "." in name else PLUGIN_PREFIX + name
