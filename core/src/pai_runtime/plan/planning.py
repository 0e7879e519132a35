"""The way from a job file to its plans, which all commands share."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pai_document.problems import Problem, Problems
from pai_document.value import Value
from pai_runtime.host.discovery import Manifest, Plugin
from pai_runtime.host.host import Host, Unavailable, check_parameters
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job, JobUse
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides
from pai_runtime.job.plugins import JobPlugins, StorageFields
from pai_runtime.job.reading import mapping
from pai_runtime.plan.build import LEFT_OUT, PlannedRole, Planner, use_problem
from pai_runtime.plan.environment import Placement
from pai_task.record import record

if TYPE_CHECKING:
    from pai_runtime.definitions import OpenDefinitions


@record(frozen=True)
class JobFiles:
    """The input of planning: a job file or document, a file or mapping of secrets, and the overrides.

    `open_definitions` opens the definitions that the job requires.
    """

    job: Path | Value
    secrets: Path | Value | None = None
    overrides: Overrides = NO_OVERRIDES
    open_definitions: "OpenDefinitions | None" = None


def plan_job(
    files: JobFiles,
    host: Host,
    place: Callable[[Job], Placement],
    problems: Problems,
    *,
    lenient: bool = False,
) -> Planner:
    """Return a planner for the job, in the placement that `place` gives it.

    All faults are added to `problems`; raises `InvalidInput` if one is an error. A missing plugin is an
    error, but a warning if the failure policy of the use ignores it, or if `lenient`: a job file is not wrong
    because this machine lacks a plugin, unless its name is a misspelling of an installed one.
    """
    plugins = job_plugins(host)
    job = load_job(files.job, files.secrets, plugins, problems, files.overrides, files.open_definitions)
    roles = planned_roles(job, host, problems, lenient=lenient)
    problems.check()
    return Planner(job, host, roles, place(job), problems)


def job_plugins(host: Host) -> JobPlugins:
    """Return what the manifests of a host's plugins declare about jobs; see `JobPlugins`."""

    def storage_fields(id_: str) -> StorageFields | None:
        storage = host.installed[id_][0].manifest.storage if id_ in host.installed else None
        return StorageFields(storage.name, storage.mount_path) if storage else None

    def ports(id_: str) -> Mapping[str, int]:
        return host.installed[id_][0].manifest.ports if id_ in host.installed else {}

    @cache
    def first(what: str, is_for: Callable[[Manifest], bool]) -> str:
        """Return the id of the first usable plugin for this; for messages, else a refused one or `what`."""
        return host.first(lambda plugin: is_for(plugin.manifest)) or what

    def namesake(name: str) -> str | None:
        if any(_in_extras(plugin) == name for plugin in host.usable if _is_default(plugin, host)):
            return None
        short = (id_.rpartition(".")[2] for id_ in host.installed)
        return next((each for each in short if each.lower() == name.lower()), None)

    def in_version_2(root: Value, problems: Problems) -> Value:
        from pai_runtime.host import job_formats  # noqa: PLC0415 - most jobs are of version 2

        return job_formats.in_version_2(root, host, problems)

    return JobPlugins(
        storage_fields,
        ports,
        for_storages=lambda: first("for extras.storages and requireStorages", _is_for_storages),
        for_callbacks=lambda: first("for callbacks", _is_for_callbacks),
        namesake=namesake,
        in_version_2=in_version_2,
    )


def _is_for_callbacks(manifest: Manifest) -> bool:
    return manifest.callbacks


def _is_for_storages(manifest: Manifest) -> bool:
    return manifest.storage is not None and manifest.storage.for_extras


def planned_roles(job: Job, host: Host, problems: Problems, *, lenient: bool = False) -> list[PlannedRole]:
    """Return each role with the plugins of its uses, after checking their parameters; imports no plugin."""
    defaults = list(_defaults(job, host, problems))
    problems.add(*_missing_defaults(host))
    roles = []
    for name, role in job.roles.items():
        usable = []
        for use in job.uses[name].uses:
            try:
                plugin = host.find(use.plugin, shared=use.shared)
            except Unavailable as error:
                problems.add(_unavailable(use, error, lenient=lenient))
                continue
            check_parameters(plugin, use.parameters, problems, use.locate)
            usable.append((use, plugin))
        named = {use.plugin for use, _ in usable}
        added = [(use, plugin) for use, plugin in defaults if use.plugin not in named]
        for use, plugin in added:
            check_parameters(plugin, use.parameters, problems, use.locate)
        first = [pair for pair in added if pair[0].plugin in host.defaults]
        last = [pair for pair in added if pair[0].plugin not in host.defaults]
        roles.append(PlannedRole(role, (*first, *usable, *last), job.uses[name].command))
    return roles


def _defaults(job: Job, host: Host, problems: Problems) -> Iterator[tuple[JobUse, Plugin]]:
    """Yield the uses of allowed plugins that a policy, or their manifest, says every job has by default.

    The field of ``extras`` with the short name of such a plugin has its parameters.
    """
    extras = mapping(job.value, "extras")
    for plugin in host.usable:
        if _is_default(plugin, host):
            by_policy = host.defaults.get(plugin.id)
            name = _in_extras(plugin)
            given = mapping(extras, name)
            if extras and given is None and (other := extras.get(name)) is not None:
                message = f"expected a mapping, the parameters of the plugin {name}"
                problems.add(other.problem("wrong-type", message, found=other.text))
            fields = {str(each.key): each for each in given.values()} if given else {}
            use = JobUse(
                plugin=plugin.id,
                name=name,
                parameters={key: each.data for key, each in fields.items()},
                failure_policy="fail" if given or by_policy else "ignore",
                value=given or by_policy or job.value,
                fields=fields,
            )
            yield use, plugin


def _is_default(plugin: Plugin, host: Host) -> bool:
    return plugin.manifest.default or plugin.id in host.defaults


def _missing_defaults(host: Host) -> Iterator[Problem]:
    """Yield a warning for each plugin that a policy puts on by default, and that cannot be used here."""
    for id_, value in host.defaults.items():
        try:
            host.find(id_)
        except Unavailable as error:
            message = f"{error}; jobs run without it"
            yield value.problem(
                "plugin-refused" if error.installed else "no-such-plugin", message, severity="warning"
            )


def _in_extras(plugin: Plugin) -> str:
    """Return the field of ``extras`` with the parameters of a plugin that is on by default."""
    return plugin.id.rpartition(".")[2]


def _unavailable(use: JobUse, error: Unavailable, *, lenient: bool) -> Problem:
    is_warning = use.failure_policy == "ignore" or (lenient and not error.installed and not error.misspelt)
    consequence = "its parameters were not checked" if lenient else LEFT_OUT
    code = "plugin-refused" if error.installed else "no-such-plugin"
    return use_problem(use, code, str(error), consequence if is_warning else None, error.suggestion)
