"""Assembly of plans from the contributions of the uses."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pai_document.problems import Problem, Problems, problem_lines
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host
from pai_runtime.host.planning import Answer, Question, ask
from pai_runtime.job.model import Job, JobUse, TaskRole
from pai_runtime.plan.environment import JobEnvironment, Placement, TaskName
from pai_runtime.plan.mounts import FOLDERS_VARIABLE, conflict
from pai_runtime.plugin import EVENTS, Contribution, Task, Use
from pai_task.exit_codes import TIMEOUT
from pai_task.placeholders import show
from pai_task.plan import (
    PLATFORM,
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
from pai_task.record import record, replace
from pai_task.vocabulary import Event

LEFT_OUT: Final = "it is left out, as its failurePolicy says"

_COMMAND_LINE: Final = "--env"
"""The source of variables that the command line sets."""

_LIFECYCLE_HOOKS: Final[dict[Event, str]] = {
    "taskStarts": "pai_task_starts",
    "taskSucceeds": "pai_task_succeeds",
    "taskFails": "pai_task_fails",
    "taskExits": "pai_task_exits",
}

_UseAnswer = tuple[frozenset[str], Contribution] | PluginError
"""The hooks that a plugin implements with what a use of it adds to one task, or the error."""


@record(frozen=True)
class PlannedRole:
    """A task role with its uses, each with its plugin, and its command."""

    role: TaskRole
    uses: tuple[tuple[JobUse, Plugin], ...]
    command: Command


def use_problem(
    use: JobUse, code: str, message: str, consequence: str | None, suggestion: str | None = None
) -> Problem:
    """Return a problem with a use: a warning if the job continues with a `consequence`, else an error."""
    return Problem(
        code,
        f"{message}; {consequence}" if consequence else message,
        use.position,
        f"use '{use.name}'",
        suggestion=suggestion,
        severity="warning" if consequence else "error",
    )


class Planner:
    """A planner for all tasks of a job in one placement.

    Errors of plugins are added to `problems`; the plans are valid only if there are none.
    """

    def __init__(
        self, job: Job, host: Host, roles: Sequence[PlannedRole], placement: Placement, problems: Problems
    ) -> None:
        self.job = job
        self._host = host
        self._roles = {each.role.name: each for each in roles}
        self._placement = placement
        self._environment = JobEnvironment(job, placement)
        self._instances = {role.name: role.instances for role in job.roles.values()}
        self._roles_of = _roles_by(_key, roles)
        self._roles_with = _roles_by(lambda use: use.plugin, roles)
        self._problems = problems
        self._warnings = problems.in_order

    def plans(self, *only: TaskName) -> dict[TaskName, Plan]:
        """Return the plans of the tasks in `only`, or of all tasks."""
        answers = self._ask([self._task(name) for name in only or self._placement.places])
        return {name: self._draft(name, own).plan() for name, own in answers.items()}

    def draft(self, name: TaskName) -> "Draft":
        """Return what a task's plan is made of, where not all is known yet when its plugins are asked."""
        return self._draft(name, self._ask([self._task(name)])[name])

    def groups(self) -> list[tuple[int, Plan]]:
        """Return groups of tasks that differ only in index and ports: their size and the first one's plan."""
        answers = self._ask([self._task(name) for name in self._placement.places])
        sizes: dict[TaskName, int] = {}
        first: TaskName | None = None
        for name, own in answers.items():
            if first is None or first[0] != name[0] or answers[first] != own:
                first = name
            sizes[first] = sizes.get(first, 0) + 1
        return [(size, self._draft(name, answers[name]).plan()) for name, size in sizes.items()]

    def _task(self, name: TaskName) -> Task:
        place = self._placement.places[name]
        return Task(
            job=self.job.name,
            role=name[0],
            index=name[1],
            instances=self._instances,
            ports=place.ports,
            folder=Path(place.folder),
            gang=self.job.gang,
            user=self._placement.user,
            run=self._placement.framework,
        )

    def _ask(self, tasks: Collection[Task]) -> dict[TaskName, list[_UseAnswer]]:
        """Return what each use adds to the plan of each task."""
        by_role: dict[str, list[Task]] = {}
        for task in tasks:
            by_role.setdefault(task.role, []).append(task)
        questions = [
            Question(plugin, self._use(use), of_role)
            for name, of_role in by_role.items()
            for use, plugin in self._roles[name].uses
        ]
        answers: dict[TaskName, list[_UseAnswer]] = {(task.role, task.index): [] for task in tasks}
        for question, answer in zip(questions, ask(self._host, questions), strict=True):
            for number, task in enumerate(question.tasks):
                answers[task.role, task.index].append(_for_task(answer, number))
        return answers

    def _draft(self, name: TaskName, answers: Sequence[_UseAnswer]) -> "Draft":
        role = self._roles[name[0]]
        draft = Draft(self._environment, role, name[1], self._instances)
        found: list[Problem] = []
        for (use, plugin), answer in zip(role.uses, answers, strict=True):
            if isinstance(answer, PluginError):
                consequence = LEFT_OUT if use.failure_policy == "ignore" else None
                problem = use_problem(use, "plugin-error", self._shown(str(answer)), consequence)
                found.append(replace(problem, frames=tuple(map(self._shown, answer.frames))))
                continue
            hooks, contribution = answer
            found += [
                Problem(
                    "plugin-warning", self._shown(text), use.position, f"use '{use.name}'", severity="warning"
                )
                for text in contribution.warnings
            ]
            draft.add(self._record(use, plugin, contribution), hooks, contribution)
            for mount in contribution.mounts:
                if fault := draft.add_mount(mount):
                    found.append(use_problem(use, "mount-conflict", fault, None))
        self._problems.add(*found)
        draft.complete()
        draft.warnings = [problem for problem in (*self._warnings, *found) if problem.severity == "warning"]
        draft.refused = self._host.refused
        return draft

    def _shown(self, text: str) -> str:
        """Return a plugin's text printable and without secrets."""
        return self._problems.mask(show(text))

    def _use(self, use: JobUse) -> Use:
        return Use(
            plugin=use.plugin,
            name=use.name,
            parameters=use.parameters,
            failure_policy=use.failure_policy,
            source=str(use.position),
            roles=self._roles_of[_key(use)],
            plugin_roles=self._roles_with[use.plugin],
        )

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
            roles=self._roles_of[_key(use)],
            plugin_roles=self._roles_with[use.plugin],
            secrets=tuple(contribution.secrets),
            via=use.position.way,
            capabilities=plugin.manifest.capabilities,
        )


class Draft:
    """What the uses of one task add up to, one after the other; `plan` makes its plan of it, once."""

    def __init__(
        self, environment: JobEnvironment, planned: PlannedRole, index: int, instances: Mapping[str, int]
    ) -> None:
        self.role, self.index = planned.role.name, index
        self.place = environment.placement.places[self.role, index]
        self.uses: list[UseRecord] = []
        self.warnings: list[Problem] = []
        self.refused: tuple[str, ...] = ()
        self._environment = environment
        self._command = planned.command
        self._instances = instances
        self._variables = {variable.name: variable for variable in environment.own(planned.role, index)}
        self._steps: list[Step] = []
        self._services: list[PlannedService] = []
        self._mounts: list[PlannedMount] = []
        self._exit_rules: list[PlannedRule] = []
        self._permanent_codes: set[int] = set()

    def plan(self, command: Command | None = None, variables: Iterable[Variable] = ()) -> Plan:
        """Make the plan, whole. A command that is given stands for the job's.

        The variables come last, but for those of the command line.
        """
        job = self._environment.job
        given = [Variable(name, value, _COMMAND_LINE) for name, value in job.variables.items()]
        return Plan(
            job=job.name,
            role=self.role,
            index=self.index,
            folder=self.place.folder,
            instances=self._instances,
            ports=self.place.ports,
            environment=(*self._variables.values(), *self.place.variables, *variables, *given),
            uses=tuple(self.uses),
            steps=tuple(self._steps),
            services=tuple(self._services),
            mounts=tuple(self._mounts),
            exit_rules=tuple(self._exit_rules),
            permanent_codes=tuple(sorted(self._permanent_codes | ({TIMEOUT} if job.timeout else set()))),
            listed_codes=self._environment.placement.listed_codes,
            hold=job.hold,
            timeout=job.timeout,
            gang=job.gang,
            strict_callbacks=job.strict_callbacks,
            command=replace(command or self._command, on_preemption=self._command.on_preemption),
            warnings=tuple(problem_lines(self.warnings)),
            shared=self._environment.shared,
            refused=self.refused,
        )

    def add(self, use: UseRecord, hooks: frozenset[str], contribution: Contribution) -> None:
        """Add a use and its contribution, except for its mounts."""
        number = len(self.uses)
        self.uses.append(use)
        for name, value in contribution.environment.items():
            self._variables[name] = Variable(name, value, use.name)
        self._steps += _steps(use, hooks, contribution, number)
        self._services += [PlannedService(number, service) for service in contribution.services]
        self._exit_rules += [PlannedRule(number, rule) for rule in contribution.exit_rules]
        self._permanent_codes.update(contribution.permanent_codes)

    def add_mount(self, mount: Mount) -> str | None:
        """Add a mount of the last use, unless it is a duplicate.

        Returns the reason if it is not possible, else None.
        """
        others = [(planned.mount, self.uses[planned.use]) for planned in self._mounts]
        fault = conflict(mount, others)
        if fault is None and all(mount != other for other, _ in others):
            self._mounts.append(PlannedMount(len(self.uses) - 1, mount))
        return fault

    def complete(self) -> None:
        """Take in what the place means for the storages, once all uses have been added."""
        self._tell_folders(self._environment.placement.storages)
        if self._environment.placement.optional_storages:
            self._let_storages_be_missing()

    def _tell_folders(self, storages: Collection[str]) -> None:
        """Set the variable that tells the task which NFS exports its engine provides as directories."""
        paths = [
            each.mount.path
            for each in self._mounts
            if each.mount.kind == "nfs" and each.mount.source in storages
        ]
        if paths:
            self._variables[FOLDERS_VARIABLE] = Variable(FOLDERS_VARIABLE, "\n".join(paths), PLATFORM)

    def _let_storages_be_missing(self) -> None:
        extras = self._environment.job.extras
        strict = {extra.plugin for extra in extras if extra.value.get("failurePolicy") is not None}
        optional = {each.use for each in self._mounts if self.uses[each.use].plugin not in strict}
        for number in optional:
            self.uses[number] = replace(self.uses[number], failure_policy="ignore")
        self._steps = [
            replace(step, failure_policy="ignore") if step.use in optional else step for step in self._steps
        ]


def _roles_by(
    key: Callable[[JobUse], Hashable], roles: Iterable[PlannedRole]
) -> Mapping[Hashable, tuple[str, ...]]:
    """Return the task roles, in the job's order, that have a use with each key."""
    found: dict[Hashable, dict[str, None]] = {}
    for each in roles:
        for use, _ in each.uses:
            found.setdefault(key(use), {})[each.role.name] = None
    return {one: tuple(names) for one, names in found.items()}


def _key(use: JobUse) -> Hashable:
    """Return a key that identifies the same use in several roles."""
    return use.plugin, use.name, use.position, use.value.field


def _for_task(answer: Answer | PluginError, number: int) -> _UseAnswer:
    """Return what a use adds to the task with this number in the question."""
    if isinstance(answer, PluginError):
        return answer
    contribution = answer.contributions[number]
    return contribution if isinstance(contribution, PluginError) else (answer.hooks, contribution)


def _steps(use: UseRecord, hooks: frozenset[str], contribution: Contribution, number: int) -> Iterator[Step]:
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
    if "pai_run_ends" in hooks:
        yield step("runEnds", hook="pai_run_ends", failure_policy="ignore")
