"""Making plans: each use is checked against its plugin's manifest, then the plugin says what it adds."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pai_runtime.document.document import DocumentPath
from pai_runtime.document.problems import InvalidInput, Problem, errors, in_order, problem_lines
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable, parameter_problems
from pai_runtime.host.planning import Answer, Question, ask
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.job.uses import JobUse, role_command, role_uses
from pai_runtime.plan.environment import JobEnvironment, Placement, TaskName
from pai_runtime.plan.mounts import conflict
from pai_runtime.plugin import EVENTS, Contribution, Task, Use
from pai_runtime.task.placeholders import show
from pai_runtime.task.plan import (
    Command,
    Mount,
    Plan,
    PlannedMount,
    PlannedRule,
    PlannedService,
    Step,
    UseRecord,
    Variable,
)
from pai_runtime.task.vocabulary import Event

_LEFT_OUT = "it is left out, as its failurePolicy says"

_ON_BY_DEFAULT = ("com.microsoft.pai.runtimeplugin.failure_analysis",)

_LIFECYCLE_HOOKS: dict[Event, str] = {
    "taskStarts": "pai_task_starts",
    "taskSucceeds": "pai_task_succeeds",
    "taskFails": "pai_task_fails",
    "taskExits": "pai_task_exits",
}

_UseAnswer = tuple[frozenset[str], Contribution] | PluginError
"""The hooks that a plugin implements and what a use of it adds to one task, or what went wrong."""


@dataclass(frozen=True)
class RoleUses:
    """A task role with what its tasks use and run; `plugins` fit `uses` one by one."""

    role: TaskRole
    uses: tuple[JobUse, ...]
    plugins: tuple[Plugin, ...]
    command: Command


def check_uses(job: Job, host: Host, problems: list[Problem], *, lenient: bool = False) -> list[RoleUses]:
    """The uses of every role, each checked against the manifest of its plugin, which is not imported.

    A plugin that is not there is an error; only a warning if the use's failure policy ignores it, or if
    `lenient`: a job file is not wrong because this machine lacks a plugin.
    """
    roles = []
    for role in job.roles.values():
        usable = []
        for use in role_uses(job, role, problems):
            try:
                plugin = host.find(use.plugin)
            except Unavailable as error:
                problems.append(_unavailable(use, error, lenient=lenient))
                continue
            problems += parameter_problems(plugin, use.parameters, job.document, use.locate, job.mask)
            usable.append((use, plugin))
        usable += _by_default(job, host, {use.plugin for use, _ in usable})
        uses, plugins = zip(*usable, strict=True) if usable else ((), ())
        roles.append(RoleUses(role, tuple(uses), tuple(plugins), role_command(job, role, problems)))
    return roles


def _by_default(job: Job, host: Host, named: set[str]) -> Iterator[tuple[JobUse, Plugin]]:
    """Uses of what every job has that does not name it, where it is installed and allowed."""
    for id_ in _ON_BY_DEFAULT:
        if id_ not in named:
            with contextlib.suppress(Unavailable):
                plugin = host.find(id_)
                place = job.document.position(())
                yield JobUse(id_, id_.rpartition(".")[2], {}, "ignore", place, (), {}), plugin


def _unavailable(use: JobUse, error: Unavailable, *, lenient: bool) -> Problem:
    is_warning = use.failure_policy == "ignore" or (lenient and not error.installed)
    consequence = "its parameters were not checked" if lenient else _LEFT_OUT
    return _problem_of(use, str(error), consequence if is_warning else None, error.suggestion)


def _problem_of(use: JobUse, message: str, consequence: str | None, suggestion: str | None = None) -> Problem:
    """A warning where the job goes on with a `consequence`, else an error."""
    return Problem(
        f"{message}; {consequence}" if consequence else message,
        use.position,
        f"use '{use.name}'",
        suggestion=suggestion,
        severity="warning" if consequence else "error",
    )


def _warning(use: JobUse, message: str) -> Problem:
    return Problem(message, use.position, f"use '{use.name}'", severity="warning")


class Planner:
    """Makes the plans of all tasks of a job in one placement."""

    def __init__(
        self, job: Job, host: Host, roles: list[RoleUses], placement: Placement, warnings: list[Problem]
    ) -> None:
        self._job = job
        self._host = host
        self._roles = {each.role.name: each for each in roles}
        self._placement = placement
        self._environment = JobEnvironment(job, placement)
        self._instances = {role.name: role.instances for role in job.roles.values()}
        self._roles_of: dict[DocumentPath, tuple[str, ...]] = {}
        for each in roles:
            for use in each.uses:
                self._roles_of[use.path] = (*self._roles_of.get(use.path, ()), each.role.name)
        self._warnings = warnings
        self._more_warnings: list[Problem] = []

    @property
    def more_warnings(self) -> tuple[Problem, ...]:
        """What the planning itself has given rise to; the plans have them too."""
        return in_order(self._more_warnings)

    def plans(self, *only: TaskName) -> dict[TaskName, Plan]:
        """The plan of every task, or of some; raises `InvalidInput` with all that plugins did wrong."""
        answers = self._ask([self._task(name) for name in only or self._placement.places])
        return self._made(answers)

    def groups(self) -> list[tuple[int, Plan]]:
        """Tasks that differ in nothing but index and ports: how many in a row, and the plan of the first.

        Raises `InvalidInput` as `plans` does.
        """
        answers = self._ask([self._task(name) for name in self._placement.places])
        sizes: dict[TaskName, int] = {}
        first: TaskName | None = None
        for name, own in answers.items():
            if first is None or first[0] != name[0] or answers[first] != own:
                first = name
            sizes[first] = sizes.get(first, 0) + 1
        plans = self._made({name: answers[name] for name in sizes})
        return [(size, plans[name]) for name, size in sizes.items()]

    def _made(self, answers: Mapping[TaskName, list[_UseAnswer]]) -> dict[TaskName, Plan]:
        problems: list[Problem] = []
        plans = {name: self._plan(name, own, problems) for name, own in answers.items()}
        if errors(problems):
            raise InvalidInput(in_order(problems))
        self._more_warnings += problems
        return plans

    def _task(self, name: TaskName) -> Task:
        place = self._placement.places[name]
        return Task(
            self._job.name,
            *name,
            self._instances,
            place.ports,
            Path(place.folder),
            gang=self._job.gang,
            user=self._placement.user,
            run=self._placement.framework,
        )

    def _ask(self, tasks: Collection[Task]) -> dict[TaskName, list[_UseAnswer]]:
        """What each use of each task adds to its plan."""
        by_role: dict[str, list[Task]] = {}
        for task in tasks:
            by_role.setdefault(task.role, []).append(task)
        questions = [
            Question(plugin, self._use(use), of_role)
            for name, of_role in by_role.items()
            for use, plugin in zip(self._roles[name].uses, self._roles[name].plugins, strict=True)
        ]
        answers: dict[TaskName, list[_UseAnswer]] = {(task.role, task.index): [] for task in tasks}
        for question, answer in zip(questions, ask(self._host, questions), strict=True):
            for number, task in enumerate(question.tasks):
                answers[task.role, task.index].append(_for_task(answer, number))
        return answers

    def _plan(self, name: TaskName, answers: list[_UseAnswer], problems: list[Problem]) -> Plan:
        role_name, index = name
        role, place = self._roles[role_name], self._placement.places[name]
        variables = {variable.name: variable for variable in self._environment.own(role.role, index)}
        records: list[UseRecord] = []
        steps: list[Step] = []
        services: list[PlannedService] = []
        mounts: list[PlannedMount] = []
        exit_rules: list[PlannedRule] = []
        found: list[Problem] = []
        for use, plugin, answer in zip(role.uses, role.plugins, answers, strict=True):
            if isinstance(answer, PluginError):
                consequence = _LEFT_OUT if use.failure_policy == "ignore" else None
                found.append(_problem_of(use, self._job.mask(show(str(answer))), consequence))
                continue
            hooks, contribution = answer
            for variable, value in contribution.environment.items():
                variables[variable] = Variable(variable, value, use.name)
            steps += _steps(use, hooks, contribution, len(records))
            found += [_warning(use, self._job.mask(show(text))) for text in contribution.warnings]
            services += [PlannedService(len(records), service) for service in contribution.services]
            exit_rules += [PlannedRule(len(records), rule) for rule in contribution.exit_rules]
            records.append(self._record(use, plugin, contribution))
            for mount in contribution.mounts:
                found += self._add_mount(mounts, records, use, mount)
        problems += found
        warnings = [problem for problem in (*self._warnings, *found) if problem.severity == "warning"]
        return Plan(
            job=self._job.name,
            role=role_name,
            index=index,
            folder=place.folder,
            instances=self._instances,
            ports=place.ports,
            environment=tuple(variables.values()),
            uses=tuple(records),
            steps=tuple(steps),
            services=tuple(services),
            mounts=tuple(mounts),
            exit_rules=tuple(exit_rules),
            hold=self._job.hold,
            gang=self._job.gang,
            command=role.command,
            warnings=tuple(problem_lines(warnings)),
            shared=self._environment.shared,
        )

    def _add_mount(
        self, mounts: list[PlannedMount], records: list[UseRecord], use: JobUse, mount: Mount
    ) -> Iterator[Problem]:
        """Plan a mount of the last of the uses, unless another one has asked for the same."""
        others = [(planned.mount, records[planned.use]) for planned in mounts]
        if fault := conflict(mount, others):
            yield _problem_of(use, fault, None)
        elif all(mount != other for other, _ in others):
            mounts.append(PlannedMount(len(records) - 1, mount))

    def _use(self, use: JobUse) -> Use:
        source, roles = str(use.position), self._roles_of[use.path]
        return Use(use.plugin, use.name, use.parameters, use.failure_policy, source, roles)

    def _record(self, use: JobUse, plugin: Plugin, contribution: Contribution) -> UseRecord:
        return UseRecord(
            name=use.name,
            plugin=use.plugin,
            distribution=plugin.distribution,
            version=plugin.version,
            digest=plugin.digest,
            parameters=use.parameters,
            failure_policy=use.failure_policy,
            source=str(use.position),
            roles=self._roles_of[use.path],
            secrets=tuple(contribution.secrets),
        )


def _for_task(answer: Answer | PluginError, number: int) -> _UseAnswer:
    """What a use adds to one of the tasks that were asked for."""
    if isinstance(answer, PluginError):
        return answer
    contribution = answer.contributions[number]
    return contribution if isinstance(contribution, PluginError) else (answer.hooks, contribution)


def _steps(use: JobUse, hooks: frozenset[str], contribution: Contribution, number: int) -> Iterator[Step]:
    step = partial(Step, use=number)
    if "pai_init" in hooks:
        yield step("init", hook="pai_init", failure_policy=use.failure_policy)
    if "pai_analyze" in hooks:
        yield step("analysis", hook="pai_analyze", failure_policy=use.failure_policy)
    for event in EVENTS:
        for shell in contribution.steps:
            if shell.event == event:
                policy = shell.failure_policy or use.failure_policy
                yield step(event, script=shell.script, failure_policy=policy)
        if _LIFECYCLE_HOOKS[event] in hooks:
            yield step(event, hook=_LIFECYCLE_HOOKS[event], failure_policy=use.failure_policy)
