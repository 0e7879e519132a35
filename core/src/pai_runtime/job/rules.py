"""The rules of the job protocol that a JSON Schema cannot say."""

import re
from collections.abc import Iterable, Iterator

from pai_runtime.document import Document, DocumentPath
from pai_runtime.job.model import Job, Prerequisite, TaskRole
from pai_runtime.job.order import dependencies_first
from pai_runtime.problems import Problem, field_name, near_miss

_MOST_LISTED = 10


def framework_name(role: str) -> str:
    """The name by which FrameworkController, which knows no capitals and no ``_``, calls a task role."""
    return re.sub("[^a-z0-9]", "", role.lower())


def check_rules(job: Job) -> Iterator[Problem]:
    """Every rule of the protocol beyond its schema."""
    yield from _unique_prerequisites(job.document)
    for prerequisite in job.prerequisites.values():
        yield from _prerequisite(job, prerequisite)
    _, cycle = dependencies_first(job.prerequisites, job.require)
    if cycle:
        path = (*job.prerequisites[cycle[0]].path, "require")
        yield _problem(job, path, "prerequisites require each other in a circle", " → ".join(cycle))
    yield from _framework_names(job)
    for role in job.roles.values():
        yield from _role(job, role)
    for extra in job.extras:
        for index, name in enumerate(extra.roles or ()):
            yield from _known(job, (*extra.path, "taskroles", index), "task role", name, job.roles)
    yield from _deployments(job)


def _unique_prerequisites(document: Document) -> Iterator[Problem]:
    node = document.node(("prerequisites",))
    first: dict[str, DocumentPath] = {}
    for index, child in node.children.items() if node else ():
        name = child.data.get("name") if isinstance(child.data, dict) else None
        path = ("prerequisites", index, "name")
        if isinstance(name, str) and first.setdefault(name, path) != path:
            message = f"another prerequisite has this name, at {document.position(first[name])}"
            yield Problem(
                message, document.position(path), field_name(path), f"'{name}'", "a name of its own"
            )


def _prerequisite(job: Job, prerequisite: Prerequisite) -> Iterator[Problem]:
    for index, name in enumerate(prerequisite.require):
        yield from _known_prerequisite(job, (*prerequisite.path, "require", index), name)
    if prerequisite.kind == "dockerimage" and prerequisite.node.children.get("callbacks"):
        path = (*prerequisite.path, "callbacks")
        yield _problem(
            job, path, "a docker image has no callbacks", "callbacks", "a prerequisite of another type"
        )
    for key in prerequisite.node.children:
        meant = _LIKELY_MISSPELT.get(str(key).lower().rstrip("s"))
        if meant and key != meant:
            place = job.document.key_position((*prerequisite.path, key))
            yield Problem("is not known here", place, field_name((*prerequisite.path, key)), suggestion=meant)


_LIKELY_MISSPELT = {
    "callback": "callbacks",
    "requirement": "require",
    "require": "require",
    "failurepolicy": "failurePolicy",
    "failure_policy": "failurePolicy",
    "plugin": "plugin",
}
"""A prerequisite may have properties of any name, so only what is hardly a property is refused."""


def _role(job: Job, role: TaskRole) -> Iterator[Problem]:
    images = [each.name for each in job.prerequisites.values() if each.kind == "dockerimage"]
    if role.docker_image:
        yield from _known(job, (*role.path, "dockerImage"), "docker image", role.docker_image, images)
    for reference, name in role.refers.items():
        yield from _known_prerequisite(job, (*role.path, reference[1:]), name)
    for index, name in enumerate(role.prerequisites):
        yield from _known_prerequisite(job, (*role.path, "prerequisites", index), name)


def _framework_names(job: Job) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name in job.roles:
        short = framework_name(name)
        place = job.document.key_position(("taskRoles", name))
        if not short:
            yield Problem("a task role needs a letter or a digit in its name", place, f"taskRoles.{name}")
        elif first.setdefault(short, name) != name:
            yield Problem(
                f"the cluster calls both '{first[short]}' and '{name}' by one name, '{short}'",
                place,
                f"taskRoles.{name}",
                expected="names that differ in more than '_' and capitals",
            )


def _deployments(job: Job) -> Iterator[Problem]:
    node = job.document.node(("deployments",))
    names: list[str] = []
    for index, child in node.children.items() if node else ():
        if not isinstance(child.data, dict):
            continue
        name, roles = child.data.get("name"), child.data.get("taskRoles")
        if isinstance(name, str):
            if name in names:
                yield _problem(
                    job, ("deployments", index, "name"), "another deployment has this name", f"'{name}'"
                )
            names.append(name)
        for role in roles if isinstance(roles, dict) else ():
            if role not in job.roles:
                path = ("deployments", index, "taskRoles", role)
                yield Problem(
                    "there is no such task role",
                    job.document.key_position(path),
                    field_name(path),
                    suggestion=near_miss(role, job.roles),
                )
    if job.deployment is not None:
        yield from _known(job, ("defaults", "deployment"), "deployment", job.deployment, names)


def _known_prerequisite(job: Job, path: DocumentPath, name: str) -> Iterator[Problem]:
    if "://" in name:
        yield _problem(
            job,
            path,
            "prerequisites from elsewhere cannot be resolved yet",
            f"'{name}'",
            "the name of a prerequisite in this job",
        )
    else:
        names = [
            each.name
            for each in job.prerequisites.values()
            if each.kind != "dockerimage" or each.name == name
        ]
        yield from _known(job, path, "prerequisite", name, names)


def _known(job: Job, path: DocumentPath, what: str, name: str, known: Iterable[str]) -> Iterator[Problem]:
    known = list(known)
    if name not in known:
        listed = ", ".join(known[:_MOST_LISTED]) + (", …" if len(known) > _MOST_LISTED else "")
        yield Problem(
            f"there is no {what} of this name",
            job.document.position(path),
            field_name(path),
            f"'{name}'",
            f"one of {listed}" if known else None,
            near_miss(name, known),
        )


def _problem(job: Job, path: DocumentPath, message: str, found: str, expected: str | None = None) -> Problem:
    return Problem(message, job.document.position(path), field_name(path), found, expected)
