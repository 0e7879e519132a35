"""Rules of the job protocol that a JSON Schema cannot express."""

from collections.abc import Iterable
from typing import Final

from pai_document.problems import Problems, Suggestions, listed, unexpected
from pai_document.value import Value
from pai_runtime.job.model import PROTOCOL_TYPES, Job, Prerequisite, is_reference
from pai_runtime.job.order import dependencies_first
from pai_runtime.job.ports import check_first_ports
from pai_task.names import framework_name

_LIKELY_MISSPELT: Final = {
    "callback": "callbacks",
    "requirement": "require",
    "require": "require",
    "failurepolicy": "failurePolicy",
    "failure_policy": "failurePolicy",
    "plugin": "plugin",
}
"""A prerequisite may have properties of any name, so only what is hardly a property is refused."""

_OF_PREREQUISITES: Final = (
    "type",
    "plugin",
    "plugin_params",
    "parameters",
    "callbacks",
    "require",
    "requireStorages",
    "failurePolicy",
)
"""Fields that have an effect: what looks like one that is missing is warned of."""

_LIKELY_MISSPELT_IN_IMAGE: Final = {
    **_LIKELY_MISSPELT,
    **dict.fromkeys(
        (
            "auth",
            "authentication",
            "authenticate",
            "authorization",
            "authorisation",
            "credential",
            "login",
        ),
        "auth",
    ),
}
"""A docker image has no properties for a plugin; without its login, it cannot be pulled."""

_OF_IMAGES: Final = frozenset(
    {"protocolVersion", "name", "type", "version", "contributor", "description", "auth", "uri", "callbacks"}
)
"""Fields of a docker image; ``callbacks`` has an error message of its own."""

_LOGIN: Final = frozenset({"username", "password", "registryuri"})


class _Names:
    """The names of one kind of thing in a job; messages list those that are `offered`."""

    def __init__(
        self, problems: Problems, what: str, names: Iterable[str], offered: Iterable[str] | None = None
    ) -> None:
        self._problems = problems
        self._what = what
        self._code = f"no-such-{what.partition(' of ')[0].replace(' ', '-')}"
        self._names = dict.fromkeys(names)
        self._offered = list(dict.fromkeys(self._names if offered is None else offered))
        self._known = f"known: {listed(self._offered)}" if self._offered else "the job has none"

    def check(self, name: Value, hint: str = "") -> None:
        """Report a name that does not exist; `hint` continues the message."""
        self._check(name.text, name, hint)

    def check_key(self, value: Value) -> None:
        """Report a value whose key is not one of the names."""
        self._check(str(value.key), value, is_key=True)

    def _check(self, name: str, value: Value, hint: str = "", *, is_key: bool = False) -> None:
        if name not in self._names:
            message = f"no {self._what} is named '{name}'{hint}; {self._known}"
            meant = self._problems.suggestions.near_miss(name, self._offered)
            self._problems.add(
                value.problem(self._code, message, f"'{name}'", suggestion=meant, at_key=is_key)
            )


class _PrerequisiteNames:
    """The names of a job's prerequisites, by the type that is expected."""

    def __init__(self, job: Job, problems: Problems) -> None:
        self._job = job
        self._problems = problems
        known = job.prerequisites.values()
        others = [*(each.name for each in known if each.kind != "dockerimage"), *job.aliases]
        self._names = {"": _Names(problems, "prerequisite", job.by_name, others)}
        for kind in PROTOCOL_TYPES:
            fitting = [each.name for each in known if job.named(each.name, kind)]
            fitting += job.aliases if kind != "dockerimage" else ()
            self._names[kind] = _Names(problems, f"prerequisite of type {kind}", fitting)

    def check(self, name: Value, kind: str = "") -> None:
        """Report a name that means no prerequisite, one of another type, or several."""
        meant = self._job.named(name.text, kind)
        if kind == "dockerimage" and "://" in name.text:
            found, expected = f"'{name.text}'", "the name of a prerequisite of type dockerimage in this job"
            message = f"a docker image cannot be a shared prerequisite; {unexpected(expected, found)}"
            self._problems.add(name.problem("unsupported-reference", message, found, expected))
        elif kind != "dockerimage" and (name.text in self._job.aliases or is_reference(name.text)):
            return
        elif len(meant) > 1:
            types = listed([each.kind or "none" for each in meant])
            message = f"'{name.text}' may mean prerequisites of the types {types}; rename all but one"
            self._problems.add(name.problem("ambiguous-name", message, found=f"'{name.text}'"))
        else:
            others = self._job.by_name.get(name.text, ())
            types = listed([each.kind for each in others])
            hint = "" if kind == "dockerimage" else f" (a shared one is marketplace://name/{name.text})"
            self._names[kind].check(name, f" (the one of this name is of type {types})" if others else hint)


def check_rules(job: Job, problems: Problems) -> None:
    """Check all rules of the job protocol beyond its schema."""
    for prerequisite in job.prerequisites.values():
        check_prerequisite(prerequisite, problems)
    _check_aliases(job, problems)
    _check_framework_names(job, problems)
    _check_prerequisite_names(job, problems)
    check_first_ports(job, problems)
    known_roles = _Names(problems, "task role", job.roles)
    for extra in job.extras:
        for name in extra.roles or ():
            known_roles.check(name)
    for deployment in job.deployments.values():
        for deployed in deployment.roles.values():
            known_roles.check_key(deployed.value)
    if job.deployment:
        _Names(problems, "deployment", filter(None, job.deployments)).check(job.deployment)


def _check_prerequisite_names(job: Job, problems: Problems) -> None:
    known = _PrerequisiteNames(job, problems)
    required = [name for each in job.prerequisites.values() for name in each.require]
    for name in (*required, *(name for alias in job.aliases.values() for name in alias.require)):
        known.check(name)
    for role in job.roles.values():
        for name, kind in role.names:
            known.check(name, kind)
        if role.docker_image:
            known.check(role.docker_image, "dockerimage")


def _check_aliases(job: Job, problems: Problems) -> None:
    for alias in job.aliases.values():
        if any(each.kind != "dockerimage" for each in job.by_name.get(alias.name, ())):
            name = alias.value.at(("name",))
            message = f"duplicate name '{alias.name}': a prerequisite of this job has it too"
            problems.add(name.problem("duplicate-name", message, found=f"'{alias.name}'"))


def check_prerequisite(prerequisite: Prerequisite, problems: Problems) -> None:
    """Check the rules that concern one prerequisite."""
    callbacks = prerequisite.properties.get("callbacks")
    is_image = prerequisite.kind == "dockerimage"
    if is_image and callbacks:
        problems.add(callbacks.problem("image-with-callbacks", "a docker image has no callbacks"))
    misspelt = _LIKELY_MISSPELT_IN_IMAGE if is_image else _LIKELY_MISSPELT
    if prerequisite.value.get("parameters") and (second := prerequisite.value.get("plugin_params")):
        message = "'parameters' is another name of 'plugin_params'; expected only one of them"
        problems.add(second.problem("duplicate-field", message))
    if variables := prerequisite.value.get("template_variables"):
        message = (
            "only shared prerequisites have template variables; move this one into a file of its own,"
            " and require it by the path of the file, such as ./definition.yaml"
        )
        problems.add(variables.problem("template-variables-in-job", message))
    for value in prerequisite.value.values():
        key = str(value.key)
        meant = misspelt.get(key.lower().rstrip("s"))
        if is_image and isinstance(value.data, dict) and not _LOGIN.isdisjoint(value.data):
            meant = meant or problems.suggestions.near_miss(key, ["auth"])
        if meant and key != meant:
            problems.add(value.problem("unknown-field", "unknown field", suggestion=meant, at_key=True))
        elif not is_image and (meant := _likely(key, prerequisite.value, problems.suggestions)):
            message = "this is a property of the prerequisite, for references, and has no effect"
            problems.add(
                value.problem("unknown-field", message, suggestion=meant, severity="warning", at_key=True)
            )
        elif is_image and key not in _OF_IMAGES and prerequisite.value.get("uri"):
            message = "has no effect on a docker image, and OpenPAI refuses the job for it"
            problems.add(value.problem("unknown-field", message, severity="warning", at_key=True))


def _likely(key: str, prerequisite: Value, suggestions: Suggestions) -> str | None:
    """Return the field that a property was probably meant to be, if that is not there."""
    if key in _OF_PREREQUISITES:
        return None
    meant = suggestions.near_miss(key, _OF_PREREQUISITES)
    return meant if meant and meant[0] == key[0].lower() and not prerequisite.get(meant) else None


def check_circles(job: Job, problems: Problems) -> None:
    """Report circular requirements, once the definitions are in the job."""
    _, cycle = dependencies_first(job.prerequisites, job.require)
    if cycle:
        links = " → ".join(map(job.label, cycle))
        where = job.prerequisites[cycle[0]].value.at(("require",))
        message = f"circular requirement of prerequisites: {links}"
        problems.add(where.problem("circle", message, found=links))


def _check_framework_names(job: Job, problems: Problems) -> None:
    first: dict[str, str] = {}
    for name, role in job.roles.items():
        short = framework_name(name)
        if not short:
            message = "the name of a task role needs a letter or a digit"
            problems.add(role.value.problem("wrong-role-name", message, at_key=True))
        elif first.setdefault(short, name) != name:
            message = (
                f"'{first[short]}' and '{name}' are both named '{short}' on the cluster;"
                " expected names that differ in more than '_' and case"
            )
            problems.add(role.value.problem("same-role-name", message, f"'{name}'", at_key=True))
