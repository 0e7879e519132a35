"""The platform's environment variables of a task, as the cluster sets them.

``PAI_WORK_DIR`` is missing here: only the container knows its working directory, so the supervisor sets it.
"""

import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pai_runtime.job.model import Job, TaskRole
from pai_runtime.job.rules import framework_name
from pai_runtime.task.plan import PEERS, PLATFORM, Plan, Variable

TaskName = tuple[str, int]
Ports = Mapping[str, tuple[int, ...]]

_NAMESPACE = uuid.UUID("6f1d2b0e-5f3c-4a53-9b0e-7b3a4d1c2e90")
"""Of the identifiers that FrameworkController would give: the same run has the same ones."""


@dataclass(frozen=True)
class Attempt:
    """Which attempt of the job this is, and in it which of the task; from 0."""

    of_job: int = 0
    of_task: int = 0


@dataclass(frozen=True)
class TaskPlace:
    """Where a task runs, as its engine decides: host address, ports by label, its folder in the container."""

    host: str
    ports: Ports
    folder: str


@dataclass(frozen=True)
class Placement:
    """Where all tasks of a job run. `framework` is the name of this run of the job.

    `storages` names those of which the engine has a folder for the tasks.
    """

    framework: str
    user: str
    places: Mapping[TaskName, TaskPlace]
    storages: Collection[str] = ()


def port_counts(role: TaskRole) -> dict[str, int]:
    """How many ports a task has by label: those of the job, and always ``ssh`` and ``http``."""
    return {**role.ports, **{label: 1 for label in ("ssh", "http") if label not in role.ports}}


@dataclass(frozen=True)
class JobEnvironment:
    """The environments of all tasks of a job in one placement."""

    job: Job
    placement: Placement

    def of(self, role: TaskRole, index: int) -> list[Variable]:
        """All platform variables of one task."""
        return [*self._shared, *self._peers, *_variables(self._own(role, index), PLATFORM)]

    @cached_property
    def _shared(self) -> list[Variable]:
        roles = self.job.roles
        names, tasks = ",".join(roles), str(sum(role.instances for role in roles.values()))
        variables = {
            "PAI_FRAMEWORK_NAME": self.placement.framework,
            "PAI_JOB_NAME": self.placement.framework,
            "PAI_USER_NAME": self.placement.user,
            "PAI_USERNAME": self.placement.user,
            "PAI_VIRTUAL_CLUSTER": self.job.virtual_cluster,
            "PAI_DEFAULT_FS_URI": "",
            "PAI_TASK_ROLE_COUNT": str(len(roles)),
            "PAI_TASK_ROLES_NUM": str(len(roles)),
            "PAI_JOB_TASK_ROLE_COUNT": str(len(roles)),
            "PAI_TASK_ROLE_LIST": names,
            "PAI_JOB_TASK_ROLE_LIST": names,
            "PAI_TASKS_NUM": tasks,
            "PAI_JOB_TASK_COUNT": tasks,
        }
        for role in roles.values():
            resource = f"{role.gpu},{role.cpu},{role.memory_mb},{role.shm_mb}"
            for name in _spellings(role):
                variables |= {
                    f"PAI_TASK_ROLE_TASK_COUNT_{name}": str(role.instances),
                    f"PAI_RESOURCE_{name}": resource,
                    f"PAI_MIN_FAILED_TASK_COUNT_{name}": str(role.min_failed or 1),
                    f"PAI_MIN_SUCCEEDED_TASK_COUNT_{name}": str(role.min_succeeded or role.instances),
                }
        return _variables(variables, PLATFORM)

    @cached_property
    def _peers(self) -> list[Variable]:
        variables: dict[str, str] = {}
        for role in self.job.roles.values():
            for name in _spellings(role):
                http = []
                for index, place in self._places(role):
                    variables[f"PAI_HOST_IP_{name}_{index}"] = place.host
                    http.append(f"{place.host}:{place.ports['http'][0]}")
                    for label, ports in place.ports.items():
                        listed = ",".join(map(str, ports))
                        variables[f"PAI_PORT_LIST_{name}_{index}_{label}"] = listed
                        variables[f"PAI_{name}_{index}_{label}_PORT"] = listed
                variables[f"PAI_TASK_ROLE_{name}_HOST_LIST"] = ",".join(http)
        variables["PAI_TASK_ROLE_INSTANCES"] = ",".join(
            f"{role.name}:{index}" for role in self.job.roles.values() for index in range(role.instances)
        )
        return _variables(variables, PEERS)

    def _own(self, role: TaskRole, index: int) -> dict[str, str]:
        place = self.placement.places[role.name, index]
        http, ssh = str(place.ports["http"][0]), str(place.ports["ssh"][0])
        variables = {
            "PAI_CURRENT_TASK_ROLE_NAME": role.name,
            "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
            "PAI_TASK_INDEX": str(index),
            "PAI_CURRENT_CONTAINER_IP": place.host,
            "PAI_CURRENT_CONTAINER_PORT": http,
            "PAI_CONTAINER_HOST_IP": place.host,
            "PAI_CONTAINER_HOST_PORT": http,
            "PAI_CONTAINER_SSH_PORT": ssh,
            "PAI_CONTAINER_HOST_PORT_LIST": "".join(
                f"{label}:{','.join(map(str, ports))};" for label, ports in place.ports.items()
            ),
            **{
                f"PAI_CONTAINER_HOST_{label}_PORT_LIST": ",".join(map(str, ports))
                for label, ports in place.ports.items()
            },
            **_framework_controller(self.placement.framework, role.name, index, Attempt()),
        }
        if role.gpu == 0:
            variables["NVIDIA_VISIBLE_DEVICES"] = "none"
        return variables

    def _places(self, role: TaskRole) -> Iterator[tuple[int, TaskPlace]]:
        for index in range(role.instances):
            yield index, self.placement.places[role.name, index]


def of_attempt(plan: Plan, framework: str, attempt: Attempt) -> Plan:
    """The plan of another attempt: FrameworkController tells each which one it is."""
    own = _framework_controller(framework, plan.role, plan.index, attempt)
    environment = tuple(
        replace(each, value=own[each.name]) if each.name in own and each.source == PLATFORM else each
        for each in plan.environment
    )
    return replace(plan, environment=environment)


def _framework_controller(framework: str, role: str, index: int, attempt: Attempt) -> dict[str, str]:
    short = framework_name(role)
    of_job, of_task = str(attempt.of_job), str(attempt.of_task)
    pod = f"{framework}-{short}-{index}"
    pod_uid = _uid(pod, of_job, of_task)
    return {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": framework,
        "FC_FRAMEWORK_UID": _uid(framework),
        "FC_FRAMEWORK_ATTEMPT_ID": of_job,
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"{of_job}_{_uid(framework, 'attempt', of_job)}",
        "FC_CONFIGMAP_NAME": f"{framework}-attempt",
        "FC_CONFIGMAP_UID": _uid(framework, "attempt", of_job),
        "FC_TASKROLE_NAME": short,
        "FC_TASKROLE_UID": _uid(framework, of_job, short),
        "FC_TASK_INDEX": str(index),
        "FC_TASK_UID": _uid(framework, of_job, short, str(index)),
        "FC_TASK_ATTEMPT_ID": of_task,
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"{of_task}_{pod_uid}",
        "FC_POD_NAME": pod,
        "FC_POD_UID": pod_uid,
    }


def _variables(values: Mapping[str, str], source: str) -> list[Variable]:
    return [Variable(name, value, source) for name, value in values.items()]


def _spellings(role: TaskRole) -> list[str]:
    """The role as users write it and, where it differs, as FrameworkController does."""
    return list(dict.fromkeys([role.name, framework_name(role.name)]))


def _uid(*names: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "/".join(names)))
