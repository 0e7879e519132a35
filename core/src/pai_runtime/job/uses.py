"""From a job's prerequisites and extras to the ordered uses of plugins in one task role."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pai_runtime.document.document import DocumentPath
from pai_runtime.document.problems import Position, Problem
from pai_runtime.job.model import OWN_FIELDS, Job, Prerequisite, TaskRole
from pai_runtime.job.order import dependencies_first
from pai_runtime.job.references import Renderer
from pai_runtime.job.storages import PLUGIN as STORAGE_PLUGIN
from pai_runtime.task.plan import Command
from pai_runtime.task.vocabulary import FailurePolicy

_FOR_THE_PLUGIN = {"callbacks"}


@dataclass(frozen=True)
class JobUse:
    """One use of a plugin in a role. `fields` says where in the job file each parameter stands."""

    plugin: str
    name: str
    parameters: Mapping[str, Any]
    failure_policy: FailurePolicy
    position: Position
    path: DocumentPath
    fields: Mapping[str, DocumentPath]

    def locate(self, path: DocumentPath) -> DocumentPath:
        """Where in the job file the value at `path` of the parameters stands."""
        return (*self.fields[str(path[0])], *path[1:]) if path and path[0] in self.fields else self.path


def role_uses(job: Job, role: TaskRole, problems: list[Problem]) -> list[JobUse]:
    """The uses in their order: dependencies first, then as the role lists them, then those of ``extras``."""
    roots = [name for name in role.roots if name in job.prerequisites]
    order, _ = dependencies_first(roots, job.require)
    chosen = [job.prerequisites[name] for name in order]
    for each in chosen:
        job.budget.add(each.node.size, job.document.position(role.path))
    uses = list(_of_storages(job, role, None, ("extras", "storages"), problems))
    for each in chosen:
        uses += _of_storages(job, role, each, (*each.path, "requireStorages"), problems)
        if each.plugin:
            uses.append(_of_prerequisite(job, role, each, each.plugin, problems))
    return uses + _of_extras(job, role, problems)


def _of_storages(
    job: Job, role: TaskRole, prerequisite: Prerequisite | None, path: DocumentPath, problems: list[Problem]
) -> Iterator[JobUse]:
    """A use for each storage in the list at `path`."""
    renderer = Renderer(job, role, prerequisite, problems)
    listed = job.document.node(path)
    for index, storage in listed.children.items() if listed and isinstance(listed.data, list) else ():
        if not isinstance(storage.data, dict):
            continue
        place = (*path, index)
        job.budget.add(storage.size, job.document.position(place))
        parameters = renderer.value(storage, place)
        yield JobUse(
            STORAGE_PLUGIN,
            str(parameters.get("name")),
            parameters,
            prerequisite.failure_policy if prerequisite else "fail",
            job.document.position(place),
            place,
            {key: (*place, key) for key in parameters},
        )


def _of_prerequisite(
    job: Job, role: TaskRole, prerequisite: Prerequisite, plugin: str, problems: list[Problem]
) -> JobUse:
    renderer = Renderer(job, role, prerequisite, problems)
    parameters: dict[str, Any] = {}
    fields: dict[str, DocumentPath] = {}
    nested = prerequisite.node.children.get("parameters")
    for key, child in nested.children.items() if nested else ():
        fields[str(key)] = (*prerequisite.path, "parameters", key)
        parameters[str(key)] = renderer.value(child, fields[str(key)])
    for key, child in prerequisite.node.children.items():
        if key not in OWN_FIELDS or (key in _FOR_THE_PLUGIN and child.data is not None):
            fields[str(key)] = (*prerequisite.path, key)
            parameters[str(key)] = renderer.value(child, fields[str(key)])
    return JobUse(
        plugin,
        prerequisite.name,
        parameters,
        prerequisite.failure_policy,
        job.document.position(prerequisite.path),
        prerequisite.path,
        fields,
    )


def _of_extras(job: Job, role: TaskRole, problems: list[Problem]) -> list[JobUse]:
    renderer = Renderer(job, role, None, problems)
    uses = []
    for extra in job.extras:
        if extra.roles is not None and role.name not in extra.roles:
            continue
        job.budget.add(extra.node.size, job.document.position(extra.path))
        path = (*extra.path, "parameters")
        node = extra.node.children.get("parameters")
        children = node.children if node else {}
        fields = {str(key): (*path, key) for key in children}
        uses.append(
            JobUse(
                extra.plugin,
                extra.plugin.rpartition(".")[2],
                {str(key): renderer.value(child, (*path, key)) for key, child in children.items()},
                extra.failure_policy,
                job.document.position(extra.path),
                path,
                fields,
            )
        )
    return uses


def role_command(job: Job, role: TaskRole, problems: list[Problem]) -> Command:
    """The user's command of a role as one script, between what the deployment puts before and after it."""
    renderer = Renderer(job, role, None, problems)
    path: DocumentPath = (*role.path, "commands")
    own = _commands(job, renderer, path)
    source = str(job.document.position(path))
    deployment = _deployment_path(job, role)
    if not deployment:
        return Command(_script(own), source)
    before = _commands(job, renderer, (*deployment, "preCommands"))
    after = _commands(job, renderer, (*deployment, "postCommands"))
    source += f", deployment '{job.deployment}' {job.document.position(deployment)}"
    return Command(_script([*before, *own, *after]), source)


def _deployment_path(job: Job, role: TaskRole) -> DocumentPath:
    deployments = job.document.node(("deployments",))
    for index, deployment in deployments.children.items() if deployments else ():
        if isinstance(deployment.data, dict) and deployment.data.get("name") == job.deployment:
            path: DocumentPath = ("deployments", index, "taskRoles", role.name)
            return path if job.document.node(path) else ()
    return ()


def _commands(job: Job, renderer: Renderer, path: DocumentPath) -> list[str]:
    node = job.document.node(path)
    if node is None or not isinstance(node.data, list):
        return []
    return [renderer.text(child, (*path, key)).strip() for key, child in node.children.items()]


def _script(commands: list[str]) -> str:
    return "\n".join(commands) + "\n"
