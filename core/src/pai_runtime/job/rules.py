"""The rules of the job protocol that a JSON Schema cannot say."""

from collections.abc import Iterable, Iterator

from pai_runtime.document.document import Document, DocumentPath
from pai_runtime.document.problems import Position, Problem, field_name
from pai_runtime.job.framework_name import framework_name
from pai_runtime.job.model import Job, Prerequisite, TaskRole
from pai_runtime.job.order import dependencies_first

_MOST_LISTED = 10
_LONGEST_LISTED = 50


class _Names:
    """The names of one kind of thing that a job has; `offered` are those that a message lists."""

    def __init__(
        self, job: Job, what: str, names: Iterable[str], offered: Iterable[str] | None = None
    ) -> None:
        self._job = job
        self._what = what
        self._names = dict.fromkeys(names)
        self._offered = list(self._names if offered is None else offered)
        listed = [name[:_LONGEST_LISTED] for name in self._offered[:_MOST_LISTED]]
        more = ", …" if len(self._offered) > _MOST_LISTED else ""
        self._expected = f"one of {', '.join(listed)}{more}" if listed else None

    def check(self, path: DocumentPath, name: str) -> Iterator[Problem]:
        """That there is something with the name that stands at `path`."""
        yield from self._check(path, name, self._job.document.position(path))

    def check_key(self, path: DocumentPath) -> Iterator[Problem]:
        """The same for the key with which `path` ends."""
        yield from self._check(path, str(path[-1]), self._job.document.position(path, is_key=True))

    def _check(self, path: DocumentPath, name: str, position: Position) -> Iterator[Problem]:
        if name in self._names:
            return
        yield Problem(
            f"there is no {self._what} of this name",
            position,
            field_name(path),
            f"'{name}'",
            self._expected,
            self._job.suggestions.near_miss(name, self._offered),
        )


def check_rules(job: Job) -> Iterator[Problem]:
    """Every rule of the protocol beyond its schema."""
    images = [each.name for each in job.prerequisites.values() if each.kind == "dockerimage"]
    others = [each.name for each in job.prerequisites.values() if each.kind != "dockerimage"]
    known_images = _Names(job, "docker image", images)
    known_prerequisites = _Names(job, "prerequisite", job.prerequisites, others)
    known_roles = _Names(job, "task role", job.roles)
    yield from _unique_prerequisites(job.document)
    for prerequisite in job.prerequisites.values():
        yield from _prerequisite(job, prerequisite, known_prerequisites)
    _, cycle = dependencies_first(job.prerequisites, job.require)
    if cycle:
        path = (*job.prerequisites[cycle[0]].path, "require")
        yield _problem(job, path, "prerequisites require each other in a circle", " → ".join(cycle))
    yield from _framework_names(job)
    for role in job.roles.values():
        yield from _role(job, role, known_images, known_prerequisites)
    for extra in job.extras:
        for path, name in _texts(job, (*extra.path, "taskroles")):
            yield from known_roles.check(path, name)
    yield from _deployments(job, known_roles)


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


def _prerequisite(job: Job, prerequisite: Prerequisite, known: _Names) -> Iterator[Problem]:
    for path, name in _texts(job, (*prerequisite.path, "require")):
        yield from _known_prerequisite(job, path, name, known)
    if prerequisite.kind == "dockerimage" and prerequisite.node.children.get("callbacks"):
        path = (*prerequisite.path, "callbacks")
        yield _problem(
            job, path, "a docker image has no callbacks", "callbacks", "a prerequisite of another type"
        )
    for key in prerequisite.node.children:
        meant = _LIKELY_MISSPELT.get(str(key).lower().rstrip("s"))
        if meant and key != meant:
            place = job.document.position((*prerequisite.path, key), is_key=True)
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


def _role(job: Job, role: TaskRole, images: _Names, prerequisites: _Names) -> Iterator[Problem]:
    if role.docker_image:
        yield from images.check((*role.path, "dockerImage"), role.docker_image)
    for reference, name in role.refers.items():
        yield from _known_prerequisite(job, (*role.path, reference[1:]), name, prerequisites)
    for path, name in _texts(job, (*role.path, "prerequisites")):
        yield from _known_prerequisite(job, path, name, prerequisites)
    if role.retries and job.gang:
        path = (*role.path, "taskRetryCount")
        yield Problem(
            "has no effect on tasks that start together; set extras.gangAllocation to false",
            job.document.position(path),
            field_name(path),
            severity="warning",
        )


def _framework_names(job: Job) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name in job.roles:
        short = framework_name(name)
        place = job.document.position(("taskRoles", name), is_key=True)
        if not short:
            yield Problem("a task role needs a letter or a digit in its name", place, f"taskRoles.{name}")
        elif first.setdefault(short, name) != name:
            yield Problem(
                f"the cluster calls both '{first[short]}' and '{name}' by one name, '{short}'",
                place,
                f"taskRoles.{name}",
                expected="names that differ in more than '_' and capitals",
            )


def _deployments(job: Job, known_roles: _Names) -> Iterator[Problem]:
    node = job.document.node(("deployments",))
    names: dict[str, None] = {}
    for index, child in node.children.items() if node else ():
        if not isinstance(child.data, dict):
            continue
        name, roles = child.data.get("name"), child.data.get("taskRoles")
        if isinstance(name, str):
            if name in names:
                yield _problem(
                    job, ("deployments", index, "name"), "another deployment has this name", f"'{name}'"
                )
            names[name] = None
        for role in roles if isinstance(roles, dict) else ():
            yield from known_roles.check_key(("deployments", index, "taskRoles", role))
    if job.deployment is not None:
        yield from _Names(job, "deployment", names).check(("defaults", "deployment"), job.deployment)


def _known_prerequisite(job: Job, path: DocumentPath, name: str, known: _Names) -> Iterator[Problem]:
    if "://" in name:
        message = "prerequisites from elsewhere cannot be resolved yet"
        yield _problem(job, path, message, f"'{name}'", "the name of a prerequisite in this job")
    else:
        yield from known.check(path, name)


def _texts(job: Job, path: DocumentPath) -> Iterator[tuple[DocumentPath, str]]:
    """The texts in the list at `path`, if it is one; what else is in it, the schema refuses."""
    node = job.document.node(path)
    for index, child in node.children.items() if node and isinstance(node.data, list) else ():
        if isinstance(child.data, str):
            yield (*path, index), child.data


def _problem(job: Job, path: DocumentPath, message: str, found: str, expected: str | None = None) -> Problem:
    return Problem(message, job.document.position(path), field_name(path), found, expected)
