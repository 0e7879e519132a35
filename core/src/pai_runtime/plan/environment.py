"""The platform's environment variables of a task: about the job, about all tasks (peers), about itself.

What an engine alone knows is not here: ``PAI_WORK_DIR`` and the like are set where the task runs. Nor is what
an engine does not know yet: where the address of a task comes later, the variables with that address are left
out, and so is it in the list of its role; whoever learns it adds them to the peers of
`pai_task.plan.SharedVariables` before the task starts.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from pai_runtime.job.model import Job, TaskRole
from pai_task.names import framework_name
from pai_task.plan import PLATFORM, SharedVariables, Variable
from pai_task.record import field, record

TaskName = tuple[str, int]
Ports = Mapping[str, tuple[int, ...]]


@record(frozen=True)
class TaskPlace:
    """Where a task runs, as its engine decides: ports by label, and its folder in the container.

    `host` is the address at which others reach it; None if that is not known before it runs. `ports` lacks
    what is not known of another task. `variables` are those of this attempt; `devices` are variables that
    tell it which devices it sees, unless the job sets them itself.
    """

    host: str | None
    ports: Ports
    folder: str
    variables: tuple[Variable, ...] = ()
    devices: Mapping[str, str] = field(default_factory=dict)


@record(frozen=True)
class Placement:
    """Where all tasks of a job run. `framework` is the name of this run of the job.

    `storages` names those of which the engine has a folder for the tasks. `told_by_platform` says that the
    tasks' containers have the variables about the job and about which task they are from the platform that
    made them: a plan then adds those about where the tasks are only. `listed_codes` are the exit codes that
    the platform knows; None: it takes any. `optional_storages`: nobody has mounted what the storages are, and
    one that is missing fails its task only if its use has a `failurePolicy` of its own that says so.
    """

    framework: str
    user: str
    places: Mapping[TaskName, TaskPlace]
    storages: Collection[str] = ()
    told_by_platform: bool = False
    listed_codes: tuple[int, ...] | None = None
    optional_storages: bool = False


@record(frozen=True)
class JobEnvironment:
    """The environment variables of all tasks of a job in one placement."""

    job: Job
    placement: Placement

    @cached_property
    def shared(self) -> SharedVariables:
        """The variables that all tasks have in common."""
        of_job = {} if self.placement.told_by_platform else self._of_job()
        return SharedVariables(of_job, self._of_peers())

    def own(self, role: TaskRole, index: int) -> list[Variable]:
        """Return the variables that only this task has."""
        place = self.placement.places[role.name, index]
        http, ssh = str(place.ports["http"][0]), str(place.ports["ssh"][0])
        variables = {} if self.placement.told_by_platform else _of_task(role, index)
        variables |= {
            "PAI_CURRENT_CONTAINER_PORT": http,
            "PAI_CONTAINER_HOST_PORT": http,
            "PAI_CONTAINER_SSH_PORT": ssh,
            "PAI_CONTAINER_HOST_PORT_LIST": "".join(
                f"{label}:{','.join(map(str, ports))};" for label, ports in place.ports.items()
            ),
        }
        for label, ports in place.ports.items():
            variables[f"PAI_CONTAINER_HOST_{label}_PORT_LIST"] = ",".join(map(str, ports))
        if place.host is not None:
            variables |= {"PAI_CURRENT_CONTAINER_IP": place.host, "PAI_CONTAINER_HOST_IP": place.host}
        if role.gpu == 0 and not self.placement.told_by_platform:
            variables["NVIDIA_VISIBLE_DEVICES"] = "none"
        variables |= place.devices
        return [Variable(name, value, PLATFORM) for name, value in variables.items()]

    def _of_job(self) -> dict[str, str]:
        roles = self.job.roles
        names, tasks = ",".join(roles), str(sum(role.instances for role in roles.values()))
        variables = {
            "PAI_FRAMEWORK_NAME": self.placement.framework,
            "PAI_JOB_NAME": self.job.name,
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
                    f"PAI_MIN_FAILED_TASK_COUNT_{name}": str(role.fails_at),
                    f"PAI_MIN_SUCCEEDED_TASK_COUNT_{name}": str(role.completes_at),
                }
        return variables

    def _of_peers(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        for role in self.job.roles.values():
            for name in _spellings(role):
                variables.update(self._of_role(role, name))
        variables["PAI_TASK_ROLE_INSTANCES"] = ",".join(f"{role}:{index}" for role, index in self.job.tasks)
        return variables

    def _of_role(self, role: TaskRole, name: str) -> Iterator[tuple[str, str]]:
        http = []
        for index in range(role.instances):
            place = self.placement.places[role.name, index]
            if place.host is not None:
                yield f"PAI_HOST_IP_{name}_{index}", place.host
            if place.host is not None and "http" in place.ports:
                host = f"[{place.host}]" if ":" in place.host else place.host  # as in a URL
                http.append(f"{host}:{place.ports['http'][0]}")
            for label, ports in place.ports.items():
                listed = ",".join(map(str, ports))
                yield f"PAI_PORT_LIST_{name}_{index}_{label}", listed
                yield f"PAI_{name}_{index}_{label}_PORT", listed
        yield f"PAI_TASK_ROLE_{name}_HOST_LIST", ",".join(http)


def _of_task(role: TaskRole, index: int) -> dict[str, str]:
    """Return the variables that identify a task."""
    return {
        "PAI_CURRENT_TASK_ROLE_NAME": role.name,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
        "PAI_TASK_INDEX": str(index),
    }


def _spellings(role: TaskRole) -> list[str]:
    """Return the role's name and, where it differs, FrameworkController's form of it."""
    return list(dict.fromkeys([role.name, framework_name(role.name)]))
