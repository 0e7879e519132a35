"""What a job asks for by its uses of plugins, and where: the uses themselves, and their storages."""

from collections.abc import Collection, Iterator, Mapping

from pai_document.problems import Location, Problems, Severity, listed
from pai_document.value import walk
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import TaskName
from pai_task.plan import Mount, Plan, UseRecord


def use_location(job: Job, role: str, use: UseRecord, text: str = "") -> Location:
    """Return the location in the job of a text in a use, such as a storage, or else of the use itself."""
    uses = job.uses[role].uses if role in job.uses else ()
    found = next((each for each in uses if each.name == use.name and str(each.position) == use.source), None)
    if found is None:
        return Location(job.position, job.position, f"use '{use.name}'")
    for value in found.fields.values():
        for path, node in walk(value.node):
            if node.data == text:
                return value.at(path)
    return found.locate(())


def asked_mounts(plans: Mapping[TaskName, Plan]) -> Iterator[tuple[str, Mount, UseRecord]]:
    """Yield each mount that a use makes in a task role, once for all of its tasks."""
    seen = set()
    for (role, _), plan in plans.items():
        for planned in plan.mounts:
            mount, use = planned.mount, plan.uses[planned.use]
            key = (role, use.name, use.source, mount.source, mount.path)
            if key not in seen:
                seen.add(key)
                yield role, mount, use


def report_unknown_storage(
    name: str, use: UseRecord, where: Location, profile: str, storages: Collection[str], problems: Problems
) -> None:
    """Report a storage of a use that an engine profile has not among its `storages`."""
    message = f"there is no storage '{name}'; profile '{profile}' has {listed(list(storages)) or 'none'}"
    severity: Severity = "error"
    if use.failure_policy == "ignore":
        severity = "warning"
        message += "; it is not mounted, and the failurePolicy ignores that"
    meant = problems.suggestions.near_miss(name, storages)
    problems.add(where.problem("unknown-storage", message, found=name, suggestion=meant, severity=severity))
