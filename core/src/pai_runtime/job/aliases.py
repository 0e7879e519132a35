"""Aliases: the names that ``extras.reference_prerequisites`` gives to sets of required prerequisites."""

from pai_document.problems import Problems
from pai_runtime.job.model import Job
from pai_runtime.job.order import dependencies_first


def used_aliases(job: Job, problems: Problems) -> list[str]:
    """Return the aliases that the job requires, directly or through others, dependencies first.

    Reports a circular requirement, and warns of unused aliases.
    """
    aliases = job.aliases
    names = [name for role in job.roles.values() for name, _ in role.names]
    names += [name for each in job.prerequisites.values() for name in each.require]

    def required(alias: str) -> list[str]:
        return [name.text for name in aliases[alias].require if name.text in aliases]

    used, circle = dependencies_first((each.text for each in names if each.text in aliases), required)
    if circle:
        links = " → ".join(circle)
        where = aliases[circle[0]].value.at(("require",))
        message = f"circular requirement of references: {links}"
        problems.add(where.problem("circle", message, found=links))
    if not problems.has_errors:  # perhaps it is meant where a name is wrong
        _warn_of_unused(job, set(used), problems)
    return used


def _warn_of_unused(job: Job, used: set[str], problems: Problems) -> None:
    for name, alias in job.aliases.items():
        if name not in used:
            message = f"'{name}' is not used: no task role names it, nor anything that requires it"
            problems.add(alias.value.problem("unused-prerequisite", message, severity="warning"))
