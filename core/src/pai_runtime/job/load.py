"""Reading a job file: every problem of it at once."""

from collections.abc import Mapping
from pathlib import Path

from pai_runtime.document.document import read_document
from pai_runtime.document.problems import InvalidInput, Position, Problems
from pai_runtime.document.schemas import check_value, package_schema
from pai_runtime.document.value import Value
from pai_runtime.job.build import build_job
from pai_runtime.job.folded_commands import warn_of_folded_commands
from pai_runtime.job.model import Job, RoleUses
from pai_runtime.job.no_effect import warn_of_no_effect
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides, overridden
from pai_runtime.job.plugins import JobPlugins
from pai_runtime.job.references import References, Renderer
from pai_runtime.job.rules import check_rules
from pai_runtime.job.secrets import check_size, masks
from pai_runtime.job.uses import RoleResolver
from pai_runtime.task.record import replace


def load_job(
    path: Path,
    secrets_file: Path | None,
    plugins: JobPlugins,
    problems: Problems,
    overrides: Overrides = NO_OVERRIDES,
) -> Job:
    """The job in a file. Raises `InvalidInput` for a file that is no document, or a job that grows too large.

    `secrets_file` is YAML, a mapping from names to values; it completes and overrides the job's own. From
    then on, messages of `problems` hide what is secret.
    """
    root = read_document(path)
    if not isinstance(root.data, dict):
        message = "expected a job: a mapping that starts with protocolVersion: 2"
        raise InvalidInput([root.problem("not-a-mapping", message)])
    root = overridden(root, overrides, problems)
    secrets = _read_secrets(secrets_file) if secrets_file else {}
    job = build_job(root, secrets, plugins, problems)
    if overrides.strict_callbacks:
        job = replace(job, strict_callbacks=True)
    problems.mask = masks(job.secrets, root)
    check_value(root, package_schema("pai_runtime.job", "job.schema.json"), problems)
    check_rules(job, problems)
    warn_of_no_effect(job, root, plugins, problems)
    warn_of_folded_commands(root, problems)
    in_job = root.at(("secrets",)).position
    check_size(job.secrets, Position(str(secrets_file)) if secrets_file else in_job, problems)
    references = References(job, problems)
    if job.parameters:
        Renderer(references).data(job.parameters)
    for prerequisite in job.prerequisites.values():
        Renderer(references, prerequisite=prerequisite).data(prerequisite.value)
    return resolved(references, plugins)


def resolved(references: References, plugins: JobPlugins) -> Job:
    """The job with what each of its roles uses and runs."""
    job = references.job
    has_storages = job.storages or any(each.storages for each in job.prerequisites.values())
    storage_plugin = plugins.for_storages() if has_storages else ""
    uses: dict[str, RoleUses] = {}
    for name, role in job.roles.items():
        resolver = RoleResolver(references, role, storage_plugin)
        uses[name] = RoleUses(tuple(resolver.uses()), resolver.command())
    return replace(job, uses=uses)


def _read_secrets(path: Path) -> Mapping[str, Value]:
    root = read_document(path)
    if not isinstance(root.data, dict):
        raise InvalidInput(
            [root.problem("not-a-mapping", "expected a mapping from names of secrets to their values")]
        )
    return {str(secret.key): secret for secret in root.values()}
