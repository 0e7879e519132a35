"""Warnings about parts of a job that have no effect: most are mistakes, some are written by other tools."""

from collections.abc import Iterator

from pai_document.amounts import counted
from pai_document.problems import Problem, Problems
from pai_document.schemas import package_schema
from pai_document.value import Value
from pai_runtime.job.build import PLUGIN_LIST
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.job.order import dependencies_first
from pai_runtime.job.plugins import JobPlugins
from pai_runtime.job.reading import mapping


def warn_of_no_effect(job: Job, plugins: JobPlugins, problems: Problems) -> None:
    """Warn of each part of a job that has no effect."""
    _check_extras(mapping(job.value, "extras"), plugins, problems)
    for ignored in _ignored(job):
        problems.add(_warning(ignored, "has no effect"))
    for role in job.roles.values():
        _check_counts(role, problems)
        retries = role.value.get("taskRetryCount")
        if retries and role.retries and job.gang:
            message = "has no effect while the tasks start together; set extras.gangAllocation to false"
            problems.add(_warning(retries, message))
        elif retries and retries.data and not role.retries:
            message = "means 0 here: a task is not retried without limit, as by OpenPAI"
            problems.add(_warning(retries, message, found=retries.text, expected="at least 0"))
    _check_deployments(job, problems)
    _check_unused(job, problems)


def _check_deployments(job: Job, problems: Problems) -> None:
    """Warn of unknown fields of deployments, which OpenPAI accepts."""
    schema = package_schema("pai_runtime.job", "job.schema.json")
    known = schema["$defs"]["deployment"]["properties"]
    for deployment in job.deployments.values():
        for value in deployment.value.values():
            if value.key not in known:
                meant = problems.suggestions.near_miss(str(value.key), known)
                message = "unknown field, which has no effect"
                problems.add(_warning(value, message, code="unknown-field", suggestion=meant))


def _ignored(job: Job) -> Iterator[Value]:
    """Yield the fields that OpenPAI's portal writes and nothing reads."""
    versions = [each.value.get("protocolVersion") for each in job.roles.values()]
    versions += [each.value.get("protocolVersion") for each in job.deployments.values()]
    hooks = [extra.value.get("hook") for extra in job.extras]
    yield from filter(None, [*versions, *hooks])


def _check_extras(extras: Value | None, plugins: JobPlugins, problems: Problems) -> None:
    """Warn of unknown fields of ``extras``, but not of those that are probably other tools'."""
    schema = package_schema("pai_runtime.job", "job.schema.json")
    known = schema["properties"]["extras"]["properties"]
    for value in extras.values() if extras else ():
        name = str(value.key)
        if name in known:
            continue
        meant = problems.suggestions.near_miss(name, known)
        if meant and meant[0] == name[0].lower():  # `mode` is not `code`
            message = "unknown field, which has no effect"
            problems.add(_warning(value, message, code="unknown-field", suggestion=meant))
        elif plugin := plugins.namesake(name):
            message = f"has no effect here; to use the plugin, add it to the list extras.{PLUGIN_LIST}"
            problems.add(_warning(value, f"{message}, as {{plugin: {plugin}, parameters: …}}"))


def _check_counts(role: TaskRole, problems: Problems) -> None:
    counts = {"minFailedInstances": role.min_failed, "minSucceededInstances": role.min_succeeded}
    for name, count in counts.items():
        value = role.value.get("completion", name)
        if value and count and count > role.instances:
            instances = counted(role.instances, "instance", "instances")
            message = f"means the same as -1, since the role has only {instances}"
            problems.add(_warning(value, message, found=str(count), expected=f"at most {role.instances}"))


def _check_unused(job: Job, problems: Problems) -> None:
    """Warn of unused prerequisites, except those that only other unused ones require."""
    if problems.has_errors:  # perhaps it is meant where a name is wrong
        return
    named = [
        *(names for role in job.roles.values() for names in role.names),
        *((role.docker_image, "dockerimage") for role in job.roles.values() if role.docker_image),
    ]
    roots = (job.prerequisite(name.text, kind) for name, kind in named)
    used = set(dependencies_first((each.key for each in roots if each), job.require)[0])
    unused = [key for key in job.prerequisites if key not in used]
    required = {other for key in unused for other in job.require(key)}
    for key in unused:
        if key not in required:
            message = "is not used: no task role names it, nor anything that requires it"
            value = job.prerequisites[key].value
            problems.add(_warning(value, f"'{job.label(key)}' {message}", code="unused-prerequisite"))


def _warning(value: Value, message: str, *, code: str = "no-effect", **more: str | None) -> Problem:
    return value.problem(code, message, **more, severity="warning", at_key=True)
