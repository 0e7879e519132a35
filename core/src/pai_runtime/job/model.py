"""The complete, typed job, with what it means for each task role.

What is only a name of something else is a `Value`, which knows where it stands. Parts that the schema
refuses are left out or take their default: they have been reported, and what is left can still be checked
in the same round.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from pai_document.amounts import seconds
from pai_document.problems import DocumentPath, Location, Position
from pai_document.value import Value
from pai_runtime.job.order import dependencies_first
from pai_runtime.job.reading import text
from pai_task.plan import Command
from pai_task.record import field, record
from pai_task.vocabulary import FailurePolicy, RetryOn

PLUGIN_PREFIX: Final = "com.microsoft.pai.runtimeplugin."

PROTOCOL_TYPES: Final = ("dockerimage", "data", "script", "output")
"""The types of prerequisites that the protocol gives a meaning; there may be others."""

_OTHER_SPELLING: Final = {"mountPath": "mountPoint", "mountPoint": "mountPath"}
"""Two spellings of one property: a storage has one or the other."""


PrerequisiteKey = tuple[str, str]
"""The name and the type of a prerequisite, which together are unique in a job."""


@record(frozen=True)
class Prerequisite:
    """One prerequisite of the job; `plugin` is None for a passive one, which is only referred to.

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
        """The name and type, which are unique in a job."""
        return self.name, self.kind

    def property(self, name: str) -> Value | None:
        """Return a property by its name or alternative spelling, as ``mountPath`` for ``mountPoint``."""
        return self.properties.get(name) or self.properties.get(_OTHER_SPELLING.get(name, name))


@record(frozen=True)
class Alias:
    """An entry of ``extras.reference_prerequisites``: a name that stands for all that it requires."""

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
        """Return whether the use applies to a role."""
        return self.roles is None or role in (name.text for name in self.roles)


@record(frozen=True)
class Deployed:
    """The commands that a deployment runs before and after those of one task role."""

    before: tuple[Value, ...]
    after: tuple[Value, ...]
    value: Value


@record(frozen=True)
class Deployment:
    """A deployment: the commands that it adds, by task role."""

    name: str
    roles: Mapping[str, Deployed]
    value: Value


@record(frozen=True)
class TaskRole:
    """One task role. `min_failed` and `min_succeeded` are as in ``completion``: None, -1 or a number.

    `refers` are the prerequisites that it calls its data, script and output, by ``$data`` and so on.
    `sku_type` is what ``extras.hivedScheduler`` says of the machines that it runs on.
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
        """The role's names of prerequisites, in the order in which they start, with the expected types."""
        yield from ((name, key[1:]) for key, name in self.refers.items())
        yield from ((name, "") for name in self.prerequisites)


@record(frozen=True)
class JobUse:
    """One use of a plugin in a role, with resolved references.

    `value` is what stands for it in the job file, `fields` is where each parameter is. One that is `shared`
    is that of a definition which is not the job's own.
    """

    plugin: str
    name: str
    parameters: Mapping[str, Any] = field(repr=False)
    failure_policy: FailurePolicy
    value: Value
    fields: Mapping[str, Value]
    shared: bool = False

    @property
    def position(self) -> Position:
        """The position of the use in the job file."""
        return self.value.position

    def locate(self, path: DocumentPath) -> Location:
        """Return the location in the job file of the value at `path` in the parameters."""
        if path and path[0] in self.fields:
            return self.fields[str(path[0])].at(path[1:])
        return Location(self.position, self.position, self.value.field)


@record(frozen=True)
class RoleUses:
    """The ordered uses and the command of a task role, with all references resolved."""

    uses: tuple[JobUse, ...]
    command: Command


@record(frozen=True)
class Job:
    """A whole job, typed and checked.

    `secrets` are the job's own, completed or overridden by those of a secrets file. `environment` names
    variables that tasks get from whoever runs them here, and `variables` are those that the command line
    sets. `hold` is for how many seconds a failed task is kept, and `timeout` after how many an attempt of a
    task is ended; 0 means never. `on_preemption` is what precedes the end of a command. With `gang`, all
    tasks start together, and none is retried on its own.
    `code` is a directory, relative to the job file. `first_ports` maps labels to ports for each role; see
    `pai_runtime.job.ports`. `nounset` is an option of the user's shell. With `strict_callbacks`, a callback
    that fails after the command fails the task. With `hides_secrets`, the file has ``******`` in the place of
    its secrets, as the platform returns it. `aliases` are names for prerequisites from outside the job file;
    once these are in the job, no name means an alias. `storages` are mounted by every task, `uses` has the
    uses and the command of each role. `value` is the whole document.
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
    timeout: float
    on_preemption: Value | None
    code: Value | None
    nounset: bool
    strict_callbacks: bool
    retry_on: RetryOn
    first_ports: Value | None
    hides_secrets: bool
    secrets: Mapping[str, Value] = field(repr=False)
    uses: Mapping[str, RoleUses] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def tasks(self) -> Sequence[tuple[str, int]]:
        """The tasks by role and index, in the order of the roles."""
        return [(role.name, index) for role in self.roles.values() for index in range(role.instances)]

    @property
    def saving_time(self) -> float:
        """The seconds that a command may take to save its work, before it is told to end."""
        return seconds(text(self.on_preemption, "time")) or 0 if self.on_preemption else 0

    @property
    def position(self) -> Position:
        """The position at which the document begins."""
        return self.value.position

    @property
    def file(self) -> str:
        """The path of the job file."""
        return self.value.node.source.file

    @property
    def text(self) -> str:
        """The source text of the job file, including secrets."""
        return self.value.node.source.text

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Prerequisite]]:
        """The prerequisites by name; those of one name differ in their types."""
        found: dict[str, list[Prerequisite]] = {}
        for each in self.prerequisites.values():
            found.setdefault(each.name, []).append(each)
        return found

    def named(self, name: str, kind: str = "") -> Sequence[Prerequisite]:
        """Return the prerequisites that a name may mean where a type is expected; one if it is unambiguous.

        Without a `kind`, any type matches. A type that the protocol does not know may be data, script or
        output.
        """
        found = self.by_name.get(name, ())
        if not kind:
            return [each for each in found if each.kind != "dockerimage"] or found
        fitting = [each for each in found if each.kind == kind]
        if fitting or kind == "dockerimage":
            return fitting
        return [each for each in found if each.kind not in PROTOCOL_TYPES]

    def prerequisite(self, name: str, kind: str = "") -> Prerequisite | None:
        """Return the prerequisite that a name means; None if there is none or it is ambiguous.

        See `named`.
        """
        found = self.named(name, kind)
        return found[0] if len(found) == 1 else None

    def label(self, key: PrerequisiteKey) -> str:
        """Return what messages call a prerequisite: its name, and its type where others have that name."""
        name, kind = key
        return name if len(self.by_name[name]) == 1 else f"{name} ({kind or 'without a type'})"

    def require(self, key: PrerequisiteKey) -> Sequence[PrerequisiteKey]:
        """Return the keys of the prerequisites in the job that a prerequisite requires."""
        required = (self.prerequisite(each.text) for each in self.prerequisites[key].require)
        return [each.key for each in required if each]

    def used(self, role: TaskRole) -> list[PrerequisiteKey]:
        """Return the keys of the prerequisites that a role uses, without its image, dependencies first."""
        named = (self.prerequisite(name.text, kind) for name, kind in role.names)
        return dependencies_first((each.key for each in named if each), self.require)[0]

    def docker_images(self) -> Sequence[str]:
        """Return the URIs of the images that roles run in, sorted and without duplicates."""
        names = [role.docker_image.text for role in self.roles.values() if role.docker_image]
        return sorted({str(self.prerequisites[name, "dockerimage"].value.data.get("uri")) for name in names})


def is_reference(name: str) -> bool:
    """Return whether a name refers to something outside the file: a path, URL or marketplace entry."""
    return re.fullmatch("[a-zA-Z0-9_-]*", name) is None


def plugin_id(name: str) -> str:
    """Return the id that a plugin's name in a job stands for."""
    return name if "." in name else PLUGIN_PREFIX + name
