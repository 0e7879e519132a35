"""The init step that checks whether the ports of the task are free."""

from pai_pod.errors import InitFailed
from pai_pod.port_check import taken_ports
from pai_pod.steps import PlannedTask, Pod
from pai_task.exit_codes import INIT_PORT_TAKEN


def run(pod: Pod, task: PlannedTask) -> None:
    """Raise `InitFailed` if another process has a port of this task."""
    if taken := taken_ports(task.draft.place.ports):
        raise InitFailed(INIT_PORT_TAKEN, *taken)
    pod.log.say("all ports of the task are free")
