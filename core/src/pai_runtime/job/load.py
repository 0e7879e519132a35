"""Loading of a job file, with all of its problems at once."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pai_document.document import read_document
from pai_document.problems import InvalidInput, Position, Problems
from pai_document.schemas import check_value, package_schema
from pai_document.value import Value
from pai_runtime.job.build import build_job, build_task
from pai_runtime.job.folded_commands import warn_of_folded_commands
from pai_runtime.job.model import Job, RoleUses, TaskRole, is_reference
from pai_runtime.job.no_effect import warn_of_no_effect
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides, overridden
from pai_runtime.job.peer_variables import warn_of_unknown_tasks
from pai_runtime.job.plugins import JobPlugins
from pai_runtime.job.ports import port_counts
from pai_runtime.job.references import References, Renderer
from pai_runtime.job.rules import check_circles, check_rules
from pai_runtime.job.secrets import check_size, masks
from pai_runtime.job.uses import RoleResolver
from pai_task.record import replace

if TYPE_CHECKING:
    from pai_runtime.definitions import OpenDefinitions


def load_job(
    given: Path | Value,
    secrets: Path | Value | None,
    plugins: JobPlugins,
    problems: Problems,
    overrides: Overrides = NO_OVERRIDES,
    open_definitions: "OpenDefinitions | None" = None,
) -> Job:
    """Load the job in a file, or in a document that has been read.

    `secrets` is a YAML mapping from names to values; it completes and overrides the job's own. From then on,
    messages of `problems` hide secrets. `open_definitions` opens the definitions that the job requires; None
    if there is nowhere to look for them. Other faults are added to `problems`. Raises `InvalidInput` if the
    file is not a document, or the job grows too large.
    """
    root = read_document(given) if isinstance(given, Path) else given
    if not isinstance(root.data, dict):
        message = "expected a job: a mapping that starts with protocolVersion: 2"
        raise InvalidInput([root.problem("not-a-mapping", message)])
    if "protocolVersion" not in root.data:
        root = plugins.in_version_2(root, problems)
    root = overridden(root, overrides, problems)
    job = build_job(root, _read_secrets(secrets), plugins, problems)
    if overrides.environment:
        job = replace(job, variables=overrides.environment)
    if overrides.strict_callbacks:
        job = replace(job, strict_callbacks=True)
    problems.mask = masks(job.secrets, root)
    check_value(root, package_schema("pai_runtime.job", "job.schema.json"), problems)
    check_rules(job, problems)
    job = _expanded(job, open_definitions, plugins, problems)
    check_circles(job, problems)
    warn_of_no_effect(job, plugins, problems)
    warn_of_folded_commands(root, problems)
    in_job = root.at(("secrets",)).position
    job = _completed(job, _position(secrets) or in_job, plugins, problems)
    warn_of_unknown_tasks(job, problems)
    return job


def load_task(
    root: Value, name: str, role: str, secrets: Path | Value | None, plugins: JobPlugins, problems: Problems
) -> Job:
    """Load one task as a job, from a document with only its commands and uses of plugins.

    `secrets` and what is raised: see `load_job`.
    """
    if not isinstance(root.data, dict):
        message = "expected a mapping with commands and runtimePlugin"
        raise InvalidInput([root.problem("not-a-mapping", message)])
    job = build_task(root, name, role, _read_secrets(secrets), plugins)
    problems.mask = masks(job.secrets, root)
    definitions = package_schema("pai_runtime.job", "job.schema.json")["$defs"]
    schema = package_schema("pai_runtime.job", "task.schema.json")
    check_value(root, {**schema, "$defs": definitions}, problems)
    check_rules(job, problems)
    return _completed(job, _position(secrets) or root.position, plugins, problems)


def _expanded(
    job: Job, open_definitions: "OpenDefinitions | None", plugins: JobPlugins, problems: Problems
) -> Job:
    """Return the job with the definitions that it requires from outside its file."""
    names = [name for each in job.prerequisites.values() for name in each.require]
    names += [name for role in job.roles.values() for name, _ in role.names]
    if not job.aliases and not any(is_reference(name.text) or name.key == "name" for name in names):
        return job
    from pai_runtime.job.expansion import expanded  # noqa: PLC0415 - most jobs have all that they require

    return expanded(job, open_definitions, plugins, problems)


def _completed(job: Job, secrets_at: Position, plugins: JobPlugins, problems: Problems) -> Job:
    """Resolve all references of a job, and return it with the uses of its roles."""
    check_size(job.secrets, secrets_at, problems)
    references = References(job, problems)
    if job.parameters:
        Renderer(references).data(job.parameters)
    for prerequisite in job.prerequisites.values():
        Renderer(references, prerequisite=prerequisite).data(prerequisite.value)
    return resolved(references, plugins)


def resolved(references: References, plugins: JobPlugins) -> Job:
    """Return the job with the ordered uses and the command of each role."""
    job = references.job
    has_storages = job.storages or any(each.storages for each in job.prerequisites.values())
    storage_plugin = plugins.for_storages() if has_storages else ""
    uses: dict[str, RoleUses] = {}
    roles: dict[str, TaskRole] = {}
    for name, role in job.roles.items():
        resolver = RoleResolver(references, role, storage_plugin)
        uses[name] = RoleUses(tuple(resolver.uses()), resolver.command())
        roles[name] = _with_ports(role, (plugins.ports(use.plugin) for use in uses[name].uses))
    return replace(job, uses=uses, roles=roles)


def _with_ports(role: TaskRole, declared: Iterable[Mapping[str, int]]) -> TaskRole:
    """Return the role with the ports that its plugins declare, the last ones: others stay the same."""
    own = port_counts(role)
    more = {label: count for each in declared for label, count in each.items() if label not in own}
    return replace(role, ports={**own, **more}) if more else role


def _read_secrets(given: Path | Value | None) -> Mapping[str, Value]:
    if given is None:
        return {}
    root = read_document(given) if isinstance(given, Path) else given
    if not isinstance(root.data, dict):
        raise InvalidInput(
            [root.problem("not-a-mapping", "expected a mapping from names of secrets to their values")]
        )
    return {str(secret.key): secret for secret in root.values()}


def _position(given: Path | Value | None) -> Position | None:
    """Return the position of the secrets file; None if there is none."""
    return given.position if isinstance(given, Value) else Position(str(given)) if given else None
