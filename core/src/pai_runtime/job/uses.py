"""The ordered uses of plugins in a task role, from the job's prerequisites and extras."""

import json
from collections.abc import Iterator, Mapping

from pai_document.value import Value
from pai_runtime.job.model import JobUse, Prerequisite, TaskRole
from pai_runtime.job.reading import children, text
from pai_runtime.job.references import References, Renderer
from pai_task.placeholders import show
from pai_task.plan import Command, OnPreemption


class RoleResolver:
    """A resolver of the references in one role; `storage_plugin` is the id of the plugin for ``storages``."""

    def __init__(self, references: References, role: TaskRole, storage_plugin: str) -> None:
        self._references = references
        self._job = references.job
        self._role = role
        self._storage_plugin = storage_plugin

    def uses(self) -> Iterator[JobUse]:
        """Yield the role's uses: storages and prerequisites, dependencies first, then those of ``extras``."""
        job = self._job
        used, position = [job.prerequisites[key] for key in job.used(self._role)], self._role.value.position
        for prerequisite in used:
            self._references.budget.add(prerequisite.value.node.size, position)
        known: set[str] = set()
        for storage in job.storages:
            yield from self._of_storage(storage, None, known)
        for prerequisite in used:
            for storage in prerequisite.storages:
                yield from self._of_storage(storage, prerequisite, known)
            if prerequisite.plugin:
                yield self._of_prerequisite(prerequisite, prerequisite.plugin)
        yield from self._of_extras()

    def command(self) -> Command:
        """Return the user's command as one script, with the deployment's commands before and after it."""
        job, role = self._job, self._role
        source = str(role.value.at(("commands",)).position)
        deployment = job.deployments.get(job.deployment.text) if job.deployment else None
        deployed = deployment.roles.get(role.name) if deployment else None
        commands = role.commands
        if deployment and deployed:
            source += f", deployment '{deployment.name}' {deployed.value.position}"
            commands = (*deployed.before, *commands, *deployed.after)
        return Command(self._script(commands), source, job.nounset, self._on_preemption())

    def _on_preemption(self) -> OnPreemption | None:
        value = self._job.on_preemption
        if value is None:
            return None
        commands = tuple(children(value, "commands"))
        return OnPreemption(
            seconds=self._job.saving_time,
            signal=text(value, "signal") or ("" if commands else "SIGTERM"),
            script=self._script(commands) if commands else "",
        )

    def _of_storage(
        self, storage: Value, prerequisite: Prerequisite | None, known: set[str]
    ) -> Iterator[JobUse]:
        """Yield the use of a storage, unless an equal one is among the `known`."""
        self._references.budget.add(storage.node.size, storage.position)
        fields = {str(child.key): child for child in storage.values()}
        parameters = self._rendered(fields, prerequisite)
        policy = prerequisite.failure_policy if prerequisite else "fail"
        shared = prerequisite is not None and prerequisite.shared
        what = json.dumps([policy, parameters], sort_keys=True)
        if what in known:
            return
        known.add(what)
        yield JobUse(
            plugin=self._storage_plugin,
            name=show(str(parameters.get("name"))),
            parameters=parameters,
            failure_policy=policy,
            value=storage,
            fields=fields,
            shared=shared,
        )

    def _of_prerequisite(self, prerequisite: Prerequisite, plugin: str) -> JobUse:
        fields = prerequisite.parameters
        return JobUse(
            plugin=plugin,
            name=prerequisite.name,
            parameters=self._rendered(fields, prerequisite),
            failure_policy=prerequisite.failure_policy,
            value=prerequisite.value,
            fields=fields,
            shared=prerequisite.shared,
        )

    def _of_extras(self) -> Iterator[JobUse]:
        for extra in self._job.extras:
            if extra.is_for(self._role.name):
                self._references.budget.add(extra.value.node.size, extra.value.position)
                yield JobUse(
                    plugin=extra.plugin,
                    name=extra.plugin.rpartition(".")[2],
                    parameters=self._rendered(extra.parameters),
                    failure_policy=extra.failure_policy,
                    value=extra.value,
                    fields=extra.parameters,
                )

    def _rendered(
        self, fields: Mapping[str, Value], prerequisite: Prerequisite | None = None
    ) -> dict[str, object]:
        renderer = Renderer(self._references, self._role, prerequisite)
        return {name: renderer.data(value) for name, value in fields.items()}

    def _script(self, commands: tuple[Value, ...]) -> str:
        renderer = Renderer(self._references, self._role)
        return "\n".join(renderer.text(command).strip() for command in commands) + "\n"
