"""The complete, typed job, and its meaning for each task role.

What is only a name of something else is a `Value`, which knows where it stands. Parts that the schema
refuses are left out or take their default: they have been reported, and what is left can still be checked
in the same round.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pai_runtime.document.problems import DocumentPath, Location, Position
from pai_runtime.document.value import Value
from pai_runtime.task.plan import Command
from pai_runtime.task.record import field, record
from pai_runtime.task.vocabulary import FailurePolicy, RetryOn

PLUGIN_PREFIX: Final = "com.microsoft.pai.runtimeplugin."

_OTHER_SPELLING: Final = {"mountPath": "mountPoint", "mountPoint": "mountPath"}
"""A storage has one or the other."""


@record(frozen=True)
class Prerequisite:
    """One of the job's prerequisites. `plugin` is None for a passive one, which is only referred to.

    `properties` are what references can name, `parameters` what the plugin is given; `storages` is what it
    lists in ``requireStorages``.
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

    def property(self, name: str) -> Value | None:
        """A property by its name, or by its other one."""
        return self.properties.get(name) or self.properties.get(_OTHER_SPELLING.get(name, name))


@record(frozen=True)
class Extra:
    """A use of a plugin in ``extras``. `roles` None means every role."""

    plugin: str
    failure_policy: FailurePolicy
    roles: tuple[Value, ...] | None
    parameters: Mapping[str, Value]
    value: Value


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

    @property
    def roots(self) -> tuple[str, ...]:
        """The prerequisites that it names, in the order in which they start."""
        return tuple(each.text for each in (*self.refers.values(), *self.prerequisites))


@record(frozen=True)
class JobUse:
    """One use of a plugin in a role, its references resolved.

    `position` and `field` are where it is in the job file; `fields` is where each parameter is.
    """

    plugin: str
    name: str
    parameters: Mapping[str, Any] = field(repr=False)
    failure_policy: FailurePolicy
    position: Position
    field: str
    fields: Mapping[str, Value]

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
    `code` is a directory, relative to the job file. `nounset` is an option of the user's shell;
    `strict_callbacks` says that a callback that fails after the command fails the task.
    `storages` is what every task mounts, `uses` what each role uses and runs.
    """

    position: Position
    name: str
    virtual_cluster: str
    retries: int
    parameters: Value | None
    prerequisites: Mapping[str, Prerequisite]
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
    secrets: Mapping[str, Value] = field(repr=False)
    uses: Mapping[str, RoleUses] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file that it was read from."""
        return self.position.file

    def require(self, name: str) -> Sequence[str]:
        """The names of what a prerequisite requires, as far as they are in the job."""
        required = (each.text for each in self.prerequisites[name].require)
        return [each for each in required if each in self.prerequisites]

    def docker_images(self) -> Sequence[str]:
        """Each image that a role runs in, as its prerequisite names it."""
        names = [role.docker_image.text for role in self.roles.values() if role.docker_image]
        return sorted({str(self.prerequisites[name].value.data.get("uri")) for name in names})


def plugin_id(name: str) -> str:
    """The id that a plugin's name in a job stands for."""
    return name if "." in name else PLUGIN_PREFIX + name
