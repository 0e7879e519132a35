"""Expansion of a job: the definitions that it requires become prerequisites like its own."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

from pai_document.problems import MOST_LOOKED_FOR, InvalidInput, Problems
from pai_document.url import shown_text
from pai_document.value import Value
from pai_runtime.definitions import (
    Definition,
    DefinitionFile,
    Definitions,
    Given,
    NoDefinition,
    OpenDefinitions,
)
from pai_runtime.job.aliases import used_aliases
from pai_runtime.job.budget import Budget
from pai_runtime.job.build import build_prerequisite
from pai_runtime.job.model import PROTOCOL_TYPES, Job, Prerequisite, TaskRole, is_reference
from pai_runtime.job.plugins import JobPlugins
from pai_runtime.job.reading import mapping
from pai_runtime.job.references import References, Renderer
from pai_runtime.job.rules import check_prerequisite
from pai_task.record import record, replace

_NOWHERE: Final = NoDefinition("definition-unavailable", "there is nowhere to look for shared prerequisites")

MOST_DEFINITIONS: Final = 10_000
"""Maximum number of prerequisites from definitions; where each requires ten others, they grow fast."""
MOST_DEEP: Final = 50
"""Maximum length of the chain of references from a job to a definition, by the shortest way."""


@record(frozen=True)
class _Instance:
    """A definition instantiated in the job with its variables, `depth` references away from the job."""

    prerequisite: Prerequisite
    file: DefinitionFile
    depth: int


def expanded(
    job: Job, open_definitions: OpenDefinitions | None, plugins: JobPlugins, problems: Problems
) -> Job:
    """Return the job with every definition that it requires, directly or not, as a prerequisite of its own.

    A definition becomes one prerequisite per distinct set of variables. From then on each name in the job is
    that of a prerequisite in it. A name that means nothing is reported and left out.
    """
    definitions: Definitions | NoDefinition
    try:
        definitions = open_definitions(job.secrets) if open_definitions else _NOWHERE
    except NoDefinition as error:
        definitions = error
    except InvalidInput as error:
        problems.add(*error.problems)
        return job
    expansion = _Expansion(job, definitions, plugins, problems)
    with problems.caught():
        expansion.run()
    return expansion.job()


class _Expansion:
    """The state of an expansion: breadth first, so that each definition is reached by the shortest way."""

    def __init__(
        self, job: Job, definitions: Definitions | NoDefinition, plugins: JobPlugins, problems: Problems
    ) -> None:
        self._definitions = definitions
        self._plugins = plugins
        self._problems = problems
        self._prerequisites = dict(job.prerequisites)
        self._own = replace(job, prerequisites=self._prerequisites)
        """What the job file itself has, by name; and what references mean in the definitions found so far."""
        self._names = frozenset(self._own.by_name)
        self._roles = dict(job.roles)
        self._references = References(self._own, problems)
        self._budget = Budget()
        self._faults = 0
        self._aliases: dict[str, tuple[Value, ...]] = {}
        self._instances: dict[tuple[str, ...], _Instance | None] = {}
        self._by_name: dict[str, _Instance] = {}
        self._numbers: dict[str, Iterator[int]] = {}
        self._waiting: deque[_Instance] = deque()

    def job(self) -> Job:
        """Return the job with all prerequisites found."""
        return replace(self._own, roles=self._roles, prerequisites=self._prerequisites)

    def run(self) -> None:
        """Find all that the job requires, directly or not. Raises `InvalidInput` if that exceeds a limit."""
        own = list(self._prerequisites.values())
        for alias in used_aliases(self._own, self._problems):
            required = self._in_job(self._own.aliases[alias].require)
            self._aliases[alias] = required
            self._budget.add(len(required), self._own.aliases[alias].value.position)
        for role in self._own.roles.values():
            listed = self._in_job(role.prerequisites)
            self._roles[role.name] = replace(role, refers=self._referred(role), prerequisites=listed)
        for each in own:
            self._prerequisites[each.key] = replace(each, require=self._in_job(each.require, each))
        while self._waiting:
            instance = self._waiting.popleft()
            prerequisite = instance.prerequisite
            if prerequisite.require:
                found = [self._required(name, prerequisite, instance) for name in prerequisite.require]
                require = tuple(filter(None, found))
                self._prerequisites[prerequisite.key] = replace(prerequisite, require=require)

    def _referred(self, role: TaskRole) -> dict[str, Value]:
        """Resolve a role's ``data``, ``script`` and ``output`` to one prerequisite of a fitting type each."""
        found: dict[str, Value] = {}
        for key, name in role.refers.items():
            meant, kind = self._in_job([name]), key[1:]
            if len(meant) > 1:
                message = f"'{name.text}' stands for {len(meant)} prerequisites; expected one"
                self._problems.add(name.problem("ambiguous-name", message, found=f"'{name.text}'"))
            elif meant and (meant[0] is name or self._fits(meant[0], kind)):  # of its own name, rules tell
                found[key] = meant[0]
            elif meant:
                message = f"'{name.text}' is no prerequisite of type {kind}"
                self._problems.add(name.problem("wrong-kind", message, found=f"'{name.text}'"))
        return found

    def _fits(self, name: Value, kind: str) -> bool:
        if instance := self._by_name.get(name.text):
            return instance.prerequisite.kind == kind or instance.prerequisite.kind not in PROTOCOL_TYPES
        return bool(self._own.named(name.text, kind))

    def _in_job(self, names: Iterable[Value], owner: Prerequisite | None = None) -> tuple[Value, ...]:
        """Resolve names in the job file, without duplicates; `owner` is the prerequisite with the names."""
        meant: dict[str, Value] = {}
        for name in names:
            for each in self._meant(name, owner):
                meant.setdefault(each.text, each)
        return tuple(meant.values())

    def _meant(self, name: Value, owner: Prerequisite | None) -> Iterable[Value]:
        if name.text not in self._own.aliases and is_reference(name.text):
            found = self._required(name, owner, None)
            return [found] if found else []
        if variables := _variables(name):
            message = f"'{name.text}' is in this job, where nothing declares template variables"
            self._problems.add(variables.problem("unknown-variable", message))
        if name.text in self._own.aliases:
            return self._aliases.get(name.text, ())
        return [name] if name.text in self._names else []

    def _required(self, name: Value, owner: Prerequisite | None, above: _Instance | None) -> Value | None:
        """Return the name in the job of what a reference of `owner`, in the file of `above`, means."""
        definition = self._find(name, above.file if above else None)
        if definition is None or isinstance(self._definitions, NoDefinition):
            return None
        depth = above.depth + 1 if above else 1
        if depth > MOST_DEEP:
            message = f"definitions require one another over more than {MOST_DEEP} references"
            self._problems.add(name.problem("too-deep", message))
            return None
        given = _given(name, Renderer(self._references, prerequisite=owner, final=True))
        asked = name.above if name.key == "name" and name.above else name
        try:
            variables = self._definitions.completed(definition, given, asked)
        except InvalidInput as error:
            self._report(error, name)
            return None
        self._budget.add(_values(definition, given, asked), name.position)
        key = _identity(definition, variables)
        if key not in self._instances:
            made = partial(self._definitions.rendered, definition, variables, name.position)
            self._instances[key] = self._made(definition, made, name, depth)
        instance = self._instances[key]
        if instance is None:
            return None
        unique = instance.prerequisite.name
        return Value(name.node.replaced(unique, unique), name.above, name.key)

    def _find(self, name: Value, above: DefinitionFile | None) -> Definition | None:
        """Return the definition that a name means in the file `above` of a definition, or in the job.

        Reports the fault at the name and returns None if there is no such definition.
        """
        try:
            if isinstance(self._definitions, NoDefinition):
                raise self._definitions
            return self._definitions.find(name.text, above, name.position)
        except NoDefinition as error:
            text = shown_text(name.text)
            meant = self._problems.suggestions.near_miss(name.text.rpartition("/")[2], error.known)
            message = f"cannot use '{text}': {str(error).removeprefix(f'{text}: ')}"
            self._problems.add(name.problem(error.code, message, f"'{text}'", suggestion=meant))
        except InvalidInput as error:
            self._problems.add(*error.problems)
        return None

    def _made(
        self, definition: Definition, rendered: Callable[[], Value], name: Value, depth: int
    ) -> _Instance | None:
        """Instantiate a definition as a prerequisite for the reference `name`; None if that fails."""
        if len(self._instances) >= MOST_DEFINITIONS:
            message = f"the job requires more than {MOST_DEFINITIONS} definitions"
            raise InvalidInput([name.problem("job-too-large", message)])
        position = name.position
        try:
            value = rendered()
        except InvalidInput as error:
            self._report(error, name)
            return None
        self._budget.add(value.node.size, position)
        built = self._checked(value, name)
        prerequisite = replace(built, name=self._unique(definition.name), shared=not definition.file.own)
        instance = _Instance(prerequisite, definition.file, depth)
        known = replace(prerequisite, require=()) if prerequisite.require else prerequisite
        self._prerequisites[known.key] = known
        self._by_name[prerequisite.name] = instance
        self._waiting.append(instance)
        return instance

    def _report(self, error: InvalidInput, name: Value) -> None:
        """Report the faults of one use of a definition. Raises `InvalidInput` after too many in total."""
        self._problems.add(*error.problems)
        self._faults += len(error.problems)
        if self._faults > MOST_LOOKED_FOR:
            message = f"more than {MOST_LOOKED_FOR} problems; only some of them are listed"
            raise InvalidInput([name.problem("too-many-problems", message)])

    def _checked(self, value: Value, name: Value) -> Prerequisite:
        """Build the prerequisite in a rendered definition, checked like one in the job file."""
        prerequisite = build_prerequisite(value, self._plugins)
        check_prerequisite(prerequisite, self._problems)
        if prerequisite.kind == "dockerimage":
            message = f"'{name.text}' is a docker image, which cannot be a shared prerequisite"
            self._problems.add(name.problem("unsupported-reference", message, found=f"'{name.text}'"))
        return prerequisite

    def _unique(self, name: str) -> str:
        """Return an unused name for a prerequisite: that of the definition, with a number if it is taken."""
        numbers = self._numbers.setdefault(name, count(1))
        names = (name if number == 1 else f"{name}-{number}" for number in numbers)
        return next(each for each in names if each not in self._names and each not in self._by_name)


def _variables(name: Value) -> Value | None:
    """Return the ``template_variables`` beside a ``name`` field; None if there are none."""
    variables = mapping(name.above, "template_variables") if name.key == "name" else None
    return variables if variables and variables.data else None


def _given(name: Value, renderer: Renderer) -> dict[str, Given]:
    """Return the template variables given beside a name, with the references in them resolved."""
    variables = _variables(name)
    return {str(each.key): _resolved(each, renderer) for each in variables.values()} if variables else {}


def _values(definition: Definition, given: Mapping[str, Given], asked: Value) -> int:
    """Count the values of a use's variables, since comparing two uses looks at each of them."""
    variables = definition.variables.values()
    defaults = (each.default for each in variables if each.name not in given and each.default)
    return asked.node.size + sum(each.node.size for each in defaults)


def _resolved(value: Value, renderer: Renderer) -> Given:
    data: Any = renderer.data(value)
    text = "" if isinstance(data, (dict, list)) else renderer.text(value)
    return Given(data, text, value.position)


def _identity(definition: Definition, variables: Mapping[str, Given]) -> tuple[str, ...]:
    """Return a key that is equal for references that mean the same definition with the same variables."""
    values = {name: (given.data, given.text) for name, given in variables.items()}
    file, canonical = definition.file, json.dumps(values, sort_keys=True)
    return file.digest, file.origin, definition.name, definition.kind, definition.version, canonical
