"""The rules of the job protocol that a JSON Schema cannot express."""

from collections.abc import Iterable
from typing import Final

from pai_runtime.document.problems import Problem, Problems, listed, unexpected
from pai_runtime.document.value import Value
from pai_runtime.job.framework_name import framework_name
from pai_runtime.job.model import Job, Prerequisite, TaskRole
from pai_runtime.job.order import dependencies_first

_LIKELY_MISSPELT: Final = {
    "callback": "callbacks",
    "requirement": "require",
    "require": "require",
    "failurepolicy": "failurePolicy",
    "failure_policy": "failurePolicy",
    "plugin": "plugin",
}
"""A prerequisite may have properties of any name, so only what is hardly a property is refused."""


class _Names:
    """The names of one kind of thing that a job has; `offered` are those that a message lists."""

    def __init__(
        self, problems: Problems, what: str, names: Iterable[str], offered: Iterable[str] | None = None
    ) -> None:
        self._problems = problems
        self._what = what
        self._code = f"no-such-{what.partition(' of ')[0].replace(' ', '-')}"
        self._names = dict.fromkeys(names)
        self._offered = list(self._names if offered is None else offered)
        self._known = f"known: {listed(self._offered)}" if self._offered else "the job has none"

    def check(self, name: Value) -> None:
        """Check that there is something with this name."""
        self._check(name.text, name)

    def check_key(self, value: Value) -> None:
        """Check that there is something with the name that is the value's key."""
        self._check(str(value.key), value, is_key=True)

    def _check(self, name: str, value: Value, *, is_key: bool = False) -> None:
        if name not in self._names:
            self._problems.add(
                Problem(
                    self._code,
                    f"no {self._what} is named '{name}'; {self._known}",
                    value.key_position if is_key else value.position,
                    value.field,
                    found=f"'{name}'",
                    suggestion=self._problems.suggestions.near_miss(name, self._offered),
                )
            )


def check_rules(job: Job, problems: Problems) -> None:
    """Check every rule of the protocol beyond its schema."""
    images = [each.name for each in job.prerequisites.values() if each.kind == "dockerimage"]
    others = [each.name for each in job.prerequisites.values() if each.kind != "dockerimage"]
    known_images = _Names(problems, "prerequisite of type dockerimage", images)
    known_prerequisites = _Names(problems, "prerequisite", job.prerequisites, others)
    known_roles = _Names(problems, "task role", job.roles)
    for prerequisite in job.prerequisites.values():
        _check_prerequisite(prerequisite, known_prerequisites, problems)
    _check_circles(job, problems)
    _check_framework_names(job, problems)
    for role in job.roles.values():
        _check_role(job, role, known_prerequisites, problems)
        if role.docker_image:
            known_images.check(role.docker_image)
    for extra in job.extras:
        for name in extra.roles or ():
            known_roles.check(name)
    for deployment in job.deployments.values():
        for deployed in deployment.roles.values():
            known_roles.check_key(deployed.value)
    if job.deployment:
        _Names(problems, "deployment", filter(None, job.deployments)).check(job.deployment)


def _check_prerequisite(prerequisite: Prerequisite, known: _Names, problems: Problems) -> None:
    for name in prerequisite.require:
        _check_known(name, known, problems)
    callbacks = prerequisite.properties.get("callbacks")
    if prerequisite.kind == "dockerimage" and callbacks:
        problems.add(callbacks.problem("image-with-callbacks", "a docker image has no callbacks"))
    for value in prerequisite.value.values():
        key = str(value.key)
        meant = _LIKELY_MISSPELT.get(key.lower().rstrip("s"))
        if meant and key != meant:
            problems.add(
                Problem("unknown-field", "unknown field", value.key_position, value.field, suggestion=meant)
            )


def _check_circles(job: Job, problems: Problems) -> None:
    _, cycle = dependencies_first(job.prerequisites, job.require)
    if cycle:
        links = " → ".join(cycle)
        where = job.prerequisites[cycle[0]].value.at(("require",))
        message = f"circular requirement of prerequisites: {links}"
        problems.add(Problem("circle", message, where.position, where.field, found=links))


def _check_framework_names(job: Job, problems: Problems) -> None:
    first: dict[str, str] = {}
    for name, role in job.roles.items():
        short = framework_name(name)
        position, field = role.value.key_position, role.value.field
        if not short:
            message = "the name of a task role needs a letter or a digit"
            problems.add(Problem("wrong-role-name", message, position, field))
        elif first.setdefault(short, name) != name:
            message = (
                f"'{first[short]}' and '{name}' are both named '{short}' on the cluster;"
                " expected names that differ in more than '_' and case"
            )
            problems.add(Problem("same-role-name", message, position, field, found=f"'{name}'"))


def _check_role(job: Job, role: TaskRole, known: _Names, problems: Problems) -> None:
    for name in (*role.refers.values(), *role.prerequisites):
        _check_known(name, known, problems)
    if role.retries and job.gang:
        where = role.value.at(("taskRetryCount",))
        message = "has no effect while the tasks start together; set extras.gangAllocation to false"
        problems.add(Problem("no-effect", message, where.position, where.field, severity="warning"))


def _check_known(name: Value, known: _Names, problems: Problems) -> None:
    if "://" in name.text:
        found, expected = f"'{name.text}'", "the name of a prerequisite in this job"
        message = f"prerequisites from outside the job are not supported yet; {unexpected(expected, found)}"
        problems.add(name.problem("unsupported-reference", message, found, expected))
    else:
        known.check(name)
