"""The addresses of the tasks of a job."""

from collections.abc import Mapping
from dataclasses import dataclass

from pai_runtime.plugin import Task, framework_name, task_variables


@dataclass(frozen=True)
class Peer:
    """A task that can be reached by ssh."""

    role: str
    index: int
    host: str
    port: int

    @property
    def name(self) -> str:
        """The host name of the task for other tasks, such as ``worker-0``."""
        return f"{self.role}-{self.index}"


def spellings(role: str) -> list[str]:
    """Return the role as in the job and, where it differs, FrameworkController's form of it."""
    return list(dict.fromkeys([role, framework_name(role)]))


def find_peers(task: Task, environment: Mapping[str, str]) -> list[Peer]:
    """Return all tasks of the job, this one included, whose address the platform has told, in order."""
    told = task_variables(environment)
    peers = []
    for role, instances in task.instances.items():
        for index in range(instances):
            host = told.get(f"PAI_HOST_IP_{role}_{index}")
            ports = told.get(f"PAI_PORT_LIST_{role}_{index}_ssh")
            if host and ports:
                peers.append(Peer(role, index, host, int(ports.split(",")[0])))
    return peers
