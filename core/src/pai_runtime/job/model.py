"""A job as it was written, typed. Each part knows its path in the document, for messages and provenance.

Parts that the schema refuses are left out or take their default: they have been reported, and what is left
can still be checked in the same round.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from pai_runtime.document import duration
from pai_runtime.document.document import Document, DocumentPath, Node
from pai_runtime.document.problems import Suggestions
from pai_runtime.job.budget import Budget
from pai_runtime.job.order import dependencies_first
from pai_runtime.job.secrets import as_placeholders, named_secrets, secret_values
from pai_runtime.job.storages import with_mount_path
from pai_runtime.task.masking import Masks
from pai_runtime.task.vocabulary import FailurePolicy

PLUGIN_PREFIX = "com.microsoft.pai.runtimeplugin."
PLUGIN_LIST = "com.microsoft.pai.runtimeplugin"
DEFAULT_PLUGIN = PLUGIN_PREFIX + "cmd"

OWN_FIELDS = frozenset(
    {
        "name",
        "type",
        "plugin",
        "require",
        "requireStorages",
        "callbacks",
        "parameters",
        "failurePolicy",
        "protocolVersion",
        "version",
        "contributor",
        "description",
        "auth",
    }
)
"""Fields of a prerequisite that the protocol gives a meaning; all others are properties for its plugin."""

_OTHER_SPELLING = {"mountPath": "mountPoint", "mountPoint": "mountPath"}
"""A storage has one or the other."""


@dataclass(frozen=True)
class Prerequisite:
    """One of the job's prerequisites. `plugin` is None for a passive one, which is only referred to."""

    name: str
    kind: str
    plugin: str | None
    require: tuple[str, ...]
    failure_policy: FailurePolicy
    path: DocumentPath
    node: Node

    def property(self, name: str) -> DocumentPath | None:
        """The path, from the prerequisite on, of a property; it stands on its own or below ``parameters``."""
        parameters = self.node.children.get("parameters")
        for spelling in (name, _OTHER_SPELLING.get(name, name)):
            if spelling in self.node.children:
                return (spelling,)
            if parameters and spelling in parameters.children:
                return ("parameters", spelling)
        return None


@dataclass(frozen=True)
class Extra:
    """A use of a plugin in ``extras``. `roles` None means every role."""

    plugin: str
    failure_policy: FailurePolicy
    roles: tuple[str, ...] | None
    path: DocumentPath
    node: Node


@dataclass(frozen=True)
class TaskRole:
    """One task role. `min_failed` and `min_succeeded` are as in ``completion``: None, -1 or a number."""

    name: str
    instances: int
    min_failed: int | None
    min_succeeded: int | None
    retries: int
    docker_image: str
    refers: Mapping[str, str]
    prerequisites: tuple[str, ...]
    cpu: int
    memory_mb: int
    gpu: int
    shm_mb: int
    ports: Mapping[str, int]
    path: DocumentPath

    @property
    def roots(self) -> tuple[str, ...]:
        """The prerequisites that it names, in the order in which they start."""
        return (*self.refers.values(), *self.prerequisites)


@dataclass(frozen=True)
class Job:
    """A whole job. `secrets` are the job's own, completed or overridden by those of a secrets file.

    `environment` names variables that tasks get from whoever runs them here. `hold` is for how many seconds a
    task that failed is kept. `gang` says that its tasks live together: none is tried again by itself.
    """

    document: Document
    name: str
    virtual_cluster: str
    retries: int
    deployment: str | None
    prerequisites: Mapping[str, Prerequisite]
    roles: Mapping[str, TaskRole]
    extras: tuple[Extra, ...]
    environment: tuple[str, ...]
    gang: bool
    hold: float
    secrets: Mapping[str, Node] = field(repr=False)

    def require(self, name: str) -> Sequence[str]:
        """The names of what a prerequisite requires, as far as they are in the job."""
        return [required for required in self.prerequisites[name].require if required in self.prerequisites]

    @cached_property
    def secret_placeholders(self) -> Mapping[str, Node]:
        """The secrets with placeholders in the place of their values."""
        return as_placeholders(self.secrets)

    def mask(self, text: str) -> str:
        """A message without the values of secrets, nor of what is named like one."""
        return self._masks.mask(text)

    @cached_property
    def _masks(self) -> Masks:
        return Masks([*secret_values(self.secrets).values(), *named_secrets(self.document.root)])

    @cached_property
    def budget(self) -> Budget:
        """What the job grows to; shared by all that makes it grow."""
        return Budget()

    @cached_property
    def suggestions(self) -> Suggestions:
        """For words in the job that are not known."""
        return Suggestions()

    @cached_property
    def _owners(self) -> dict[str, dict[str, Prerequisite | None]]:
        return {}

    def owner(self, prerequisite: Prerequisite, name: str) -> Prerequisite | None:
        """Who has the property `name`: the prerequisite itself, or the first of those that it requires."""
        if prerequisite.property(name) is not None or name in OWN_FIELDS:
            return prerequisite
        owners = self._owners.setdefault(name, {})

        def unknown(each: str) -> Sequence[str]:
            return [] if each in owners or self.prerequisites[each].property(name) else self.require(each)

        order, _ = dependencies_first([prerequisite.name], unknown)
        self.budget.add(len(order), self.document.position(prerequisite.path))
        for each in order:
            if each not in owners:
                candidate = self.prerequisites[each]
                inherited = (owners[required] for required in self.require(each) if owners.get(required))
                owners[each] = candidate if candidate.property(name) else next(inherited, None)
        return owners[prerequisite.name]


def build_job(document: Document, secrets: Mapping[str, Node]) -> Job:
    """The job in a document, which may have faults that the schema has reported."""
    root = document.root
    defaults = _map(root, "defaults")
    own_secrets = _map(root, "secrets")
    extras = _map(root, "extras")
    gang = extras.children.get("gangAllocation") if extras else None
    prerequisites: dict[str, Prerequisite] = {}
    for index, node in _items(root, "prerequisites"):
        prerequisite = _prerequisite(node, ("prerequisites", index))
        prerequisites.setdefault(prerequisite.name, prerequisite)
    return Job(
        document=document,
        name=_text(root, "name") or "job",
        virtual_cluster=(_text(defaults, "virtualCluster") if defaults else None) or "default",
        retries=_whole(root, "jobRetryCount") or 0,
        deployment=_text(defaults, "deployment") if defaults else None,
        prerequisites=prerequisites,
        roles={
            str(name): _role(str(name), node)
            for name, node in _children(_map(root, "taskRoles"))
            if isinstance(node.data, dict)
        },
        extras=tuple(_extras(extras)),
        environment=_texts(extras, "environment") if extras else (),
        gang=gang is None or gang.data is not False,
        hold=duration.seconds((extras and _text(extras, "holdOnFailure")) or "0") or 0,
        secrets=cast("dict[str, Node]", {**(own_secrets.children if own_secrets else {}), **secrets}),
    )


def plugin_id(name: str) -> str:
    """The id that a plugin's name in a job stands for."""
    return name if "." in name else PLUGIN_PREFIX + name


def _prerequisite(node: Node, path: DocumentPath) -> Prerequisite:
    kind = _text(node, "type") or ""
    plugin = _text(node, "plugin")
    has_callbacks = node.children.get("callbacks") is not None
    passive = kind == "dockerimage" or not (plugin or has_callbacks)
    id_ = None if passive else plugin_id(plugin) if plugin else DEFAULT_PLUGIN
    return Prerequisite(
        name=_text(node, "name") or "",
        kind=kind,
        plugin=id_,
        require=_texts(node, "require"),
        failure_policy=_policy(node),
        path=path,
        node=with_mount_path(id_, node),
    )


def _role(name: str, node: Node) -> TaskRole:
    completion, resources, options = (
        _map(node, "completion"),
        _map(node, "resourcePerInstance"),
        _map(node, "extraContainerOptions"),
    )
    refers = {f"${key}": _text(node, key) for key in ("data", "script", "output")}
    ports_node = _map(resources, "ports")
    labels = [str(label) for label, _ in _children(ports_node)]
    ports = {label: count for label in labels if (count := _whole(ports_node, label)) is not None}
    return TaskRole(
        name=name,
        instances=_whole(node, "instances") or 1,
        min_failed=_whole(completion, "minFailedInstances"),
        min_succeeded=_whole(completion, "minSucceededInstances"),
        retries=_whole(node, "taskRetryCount") or 0,
        docker_image=_text(node, "dockerImage") or "",
        refers={key: value for key, value in refers.items() if value},
        prerequisites=_texts(node, "prerequisites"),
        cpu=_whole(resources, "cpu") or 1,
        memory_mb=_whole(resources, "memoryMB") or 1,
        gpu=_whole(resources, "gpu") or 0,
        shm_mb=_whole(options, "shmMB") or 0,
        ports=ports,
        path=("taskRoles", name),
    )


def _extras(extras: Node | None) -> Iterator[Extra]:
    for index, node in _items(extras, PLUGIN_LIST):
        plugin = _text(node, "plugin")
        if plugin:
            roles = node.children.get("taskroles")
            yield Extra(
                plugin=plugin_id(plugin),
                failure_policy=_policy(node),
                roles=_texts(node, "taskroles") if roles is not None and roles.data is not None else None,
                path=("extras", PLUGIN_LIST, index),
                node=node,
            )


def _children(node: Node | None) -> Iterator[tuple[str | int, Node]]:
    yield from node.children.items() if node else ()


def _map(node: Node | None, key: str) -> Node | None:
    child = node.children.get(key) if node else None
    return child if child is not None and isinstance(child.data, dict) else None


def _items(node: Node | None, key: str) -> Iterator[tuple[int, Node]]:
    child = node.children.get(key) if node else None
    if child is not None and isinstance(child.data, list):
        for index, item in enumerate(child.children.values()):
            if isinstance(item.data, dict):
                yield index, item


def _texts(node: Node, key: str) -> tuple[str, ...]:
    child = node.children.get(key)
    items: list[Any] = child.data if child is not None and isinstance(child.data, list) else []
    return tuple(item for item in items if isinstance(item, str))


def _text(node: Node, key: str) -> str | None:
    child = node.children.get(key)
    return child.data if child is not None and isinstance(child.data, str) else None


def _whole(node: Node | None, key: str) -> int | None:
    child = node.children.get(key) if node else None
    match child.data if child else None:
        case bool():
            return None
        case int(number):
            return number
        case float(number) if number.is_integer():  # as in JSON Schema, 2.0 is a whole number
            return int(number)
    return None


def _policy(node: Node) -> FailurePolicy:
    return "ignore" if _text(node, "failurePolicy") == "ignore" else "fail"
