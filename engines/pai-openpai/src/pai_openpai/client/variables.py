"""The variables of the platform, as far as they follow from what the cluster shows of a job."""

from collections.abc import Iterator, Mapping
from typing import Any

from pai_network.fields import mapping, string
from pai_openpai.client.job_view import Config, JobView
from pai_runtime.engine import RunTask, TaskVariables


def known_variables(config: Config, view: JobView, task: RunTask, user: str, name: str) -> TaskVariables:
    """Return who and where a task is, and where the others are."""
    roles = mapping(config.document, "taskRoles")
    known = {
        "PAI_JOB_NAME": f"{user}~{name}",
        "PAI_USER_NAME": user,
        "PAI_TASK_ROLE_LIST": ",".join(roles),
        "PAI_CURRENT_TASK_ROLE_NAME": task.role,
        "PAI_TASK_INDEX": str(task.index),
        **dict(_own(view.rows.get(task.name, {}))),
        **dict(_peers(view)),
    }
    why = "only variables that follow from the job are known: OpenPAI reads no files of tasks"
    return TaskVariables({key: {"source": "platform", "value": value} for key, value in known.items()}, why)


def _own(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if host := string(row, "containerIp"):
        yield "PAI_CURRENT_CONTAINER_IP", host
    for label, ports in mapping(row, "containerPorts").items():
        yield f"PAI_CONTAINER_HOST_{label}_PORT_LIST", str(ports)


def _peers(view: JobView) -> Iterator[tuple[str, str]]:
    for task in view.run.tasks:
        row = view.rows.get(task.name, {})
        if host := string(row, "containerIp"):
            yield f"PAI_HOST_IP_{task.role}_{task.index}", host
        for label, ports in mapping(row, "containerPorts").items():
            yield f"PAI_PORT_LIST_{task.role}_{task.index}_{label}", str(ports)
