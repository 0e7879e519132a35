"""Construction of a `Job` from its document; parts that the schema refuses are left out."""

from collections.abc import Iterator, Mapping
from typing import Final

from pai_document.amounts import seconds
from pai_document.problems import Problems
from pai_document.value import Value
from pai_runtime.job.model import (
    Alias,
    Deployed,
    Deployment,
    Extra,
    Job,
    Prerequisite,
    PrerequisiteKey,
    TaskRole,
    plugin_id,
)
from pai_runtime.job.plugins import JobPlugins, with_mount_path
from pai_runtime.job.reading import (
    children,
    mapping,
    mappings,
    names,
    parameters,
    string,
    strings,
    text,
    whole,
)
from pai_task.record import replace
from pai_task.vocabulary import FailurePolicy

PLUGIN_LIST: Final = "com.microsoft.pai.runtimeplugin"
OWN_FIELDS: Final = frozenset(
    {
        "name",
        "type",
        "plugin",
        "require",
        "requireStorages",
        "callbacks",
        "parameters",
        "plugin_params",
        "failurePolicy",
        "protocolVersion",
        "version",
        "contributor",
        "description",
        "auth",
    }
)
"""Fields of a prerequisite that the protocol gives a meaning; all others are properties for its plugin."""


def build_job(root: Value, secrets: Mapping[str, Value], plugins: JobPlugins, problems: Problems) -> Job:
    """Build the job in a document, completed with the values of a secrets file.

    Its `uses` are still empty.
    """
    defaults, extras = mapping(root, "defaults"), mapping(root, "extras")
    own_secrets = mapping(root, "secrets")
    gang = extras.get("gangAllocation") if extras else None
    roles = mapping(root, "taskRoles")
    return Job(
        value=root,
        name=text(root, "name") or "job",
        virtual_cluster=text(defaults, "virtualCluster") or "default",
        retries=whole(root, "jobRetryCount") or 0,
        parameters=root.get("parameters"),
        prerequisites=_prerequisites(root, plugins, problems),
        aliases=_aliases(extras, problems),
        roles={
            str(role.key): _role(role, extras)
            for role in _values(roles).values()
            if isinstance(role.data, dict)
        },
        deployments=_deployments(root, problems),
        deployment=string(defaults, "deployment"),
        extras=tuple(_extras(extras, PLUGIN_LIST)),
        storages=_storages(extras, "storages"),
        environment=tuple(name.text for name in strings(extras, "environment")),
        gang=gang is None or gang.data is not False,
        hold=seconds(text(extras, "holdOnFailure") or "0") or 0,
        timeout=seconds(text(extras, "timeout") or "0") or 0,
        on_preemption=mapping(extras, "onPreemption"),
        code=string(extras, "code"),
        nounset=_is_on(extras, "nounset"),
        strict_callbacks=_is_on(extras, "strictCallbacks"),
        first_ports=mapping(extras, "firstPorts"),
        retry_on="always" if text(extras, "retryOn") == "always" else "retryable",
        hides_secrets=bool(text(root, "secrets")),
        secrets={**_values(own_secrets), **secrets},
    )


def build_task(root: Value, name: str, role: str, secrets: Mapping[str, Value], plugins: JobPlugins) -> Job:
    """Build a job of one task from a document that has only its commands and uses of plugins."""
    empty = Value(root.node.replaced({}))
    return replace(
        build_job(empty, secrets, plugins, Problems()),
        name=name,
        roles={role: replace(_role(root, None), name=role)},
        extras=tuple(_extras(root, "runtimePlugin")),
    )


def _prerequisites(
    root: Value, plugins: JobPlugins, problems: Problems
) -> dict[PrerequisiteKey, Prerequisite]:
    found: dict[PrerequisiteKey, Prerequisite] = {}
    for value in mappings(root, "prerequisites"):
        prerequisite = build_prerequisite(value, plugins)
        first = found.setdefault(prerequisite.key, prerequisite)
        if first is not prerequisite:
            what = f"prerequisite of type {kind}" if (kind := prerequisite.kind) else "prerequisite"
            _report_second(value, first.value, what, problems)
    return found


def _aliases(extras: Value | None, problems: Problems) -> dict[str, Alias]:
    found: dict[str, Alias] = {}
    for value in mappings(extras, "reference_prerequisites"):
        alias = Alias(text(value, "name"), names(value, "require"), value)
        first = found.setdefault(alias.name, alias)
        if first is not alias:
            _report_second(value, first.value, "reference", problems)
    return found


def build_prerequisite(written: Value, plugins: JobPlugins) -> Prerequisite:
    """Build the prerequisite in a mapping."""
    kind, plugin = text(written, "type"), text(written, "plugin")
    is_passive = kind == "dockerimage" or not (plugin or written.get("callbacks"))
    id_ = None if is_passive else plugin_id(plugin) if plugin else plugins.for_callbacks()
    fields = plugins.storage_fields(id_) if id_ else None
    value = with_mount_path(written, fields) if fields else written
    own, below = _values(value), _values(parameters(value))
    given = {
        name: child
        for name, child in own.items()
        if name not in OWN_FIELDS or (name == "callbacks" and child.data is not None)
    }
    return Prerequisite(
        name=text(value, "name"),
        kind=kind,
        plugin=id_,
        require=names(value, "require"),
        failure_policy=_policy(value),
        properties={**below, **own},
        parameters={**below, **given},
        storages=_storages(value, "requireStorages"),
        value=value,
    )


def _role(value: Value, extras: Value | None) -> TaskRole:
    sku = mapping(mapping(mapping(extras, "hivedScheduler"), "taskRoles"), str(value.key))
    completion, resources, options = (
        mapping(value, "completion"),
        mapping(value, "resourcePerInstance"),
        mapping(value, "extraContainerOptions"),
    )
    refers = {f"${key}": string(value, key) for key in ("data", "script", "output")}
    ports = mapping(resources, "ports")
    counts = {label: whole(ports, label) for label in _values(ports)}
    return TaskRole(
        name=str(value.key),
        instances=whole(value, "instances") or 1,
        min_failed=whole(completion, "minFailedInstances") or None,
        min_succeeded=whole(completion, "minSucceededInstances") or None,
        retries=max(0, whole(value, "taskRetryCount") or 0),
        docker_image=string(value, "dockerImage"),
        refers={key: name for key, name in refers.items() if name},
        prerequisites=names(value, "prerequisites"),
        commands=tuple(children(value, "commands")),
        cpu=1 if (cpu := whole(resources, "cpu")) is None else cpu,
        memory_mb=1 if (memory := whole(resources, "memoryMB")) is None else memory,
        gpu=whole(resources, "gpu") or 0,
        shm_mb=whole(options, "shmMB") or 0,
        ports={label: count for label, count in counts.items() if count is not None},
        value=value,
        sku_type=string(sku, "skuType"),
    )


def _deployments(root: Value, problems: Problems) -> dict[str, Deployment]:
    found: dict[str, Deployment] = {}
    for value in mappings(root, "deployments"):
        roles = {
            name: Deployed(tuple(children(role, "preCommands")), tuple(children(role, "postCommands")), role)
            for name, role in _values(mapping(value, "taskRoles")).items()
        }
        deployment = Deployment(text(value, "name"), roles, value)
        first = found.setdefault(deployment.name, deployment)
        if first is not deployment:
            _report_second(value, first.value, "deployment", problems)
    return found


def _extras(holder: Value | None, key: str) -> Iterator[Extra]:
    for value in mappings(holder, key):
        if plugin := text(value, "plugin"):
            roles = value.get("taskroles")
            yield Extra(
                plugin=plugin_id(plugin),
                failure_policy=_policy(value),
                roles=strings(value, "taskroles") if roles is not None and roles.data is not None else None,
                parameters=_values(value.get("parameters")),
                value=value,
            )


def _storages(holder: Value | None, key: str) -> tuple[Value, ...]:
    """Return the storages in a list that have a name; OpenPAI skips others, too."""
    return tuple(storage for storage in mappings(holder, key) if storage.get("name"))


def _report_second(value: Value, first: Value, what: str, problems: Problems) -> None:
    """Report a duplicate name. A name that is not a string is left to the schema."""
    name, before = string(value, "name"), string(first, "name")
    if name and before:
        message = f"duplicate name '{name.text}' of a {what}; the first one is at {before.position}"
        problems.add(name.problem("duplicate-name", message, found=f"'{name.text}'"))


def _values(value: Value | None) -> dict[str, Value]:
    """Return the values of a mapping by key; empty if it is not a mapping."""
    if value is None or not isinstance(value.data, dict):
        return {}
    return {str(child.key): child for child in value.values()}


def _is_on(extras: Value | None, name: str) -> bool:
    switch = extras.get(name) if extras else None
    return switch is not None and switch.data is True


def _policy(value: Value) -> FailurePolicy:
    return "ignore" if text(value, "failurePolicy") == "ignore" else "fail"
