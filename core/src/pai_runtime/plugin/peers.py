"""The variables about the other tasks of a job, for hooks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def task_variables(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with all variables about tasks, such as ``PAI_HOST_IP_worker_0``.

    Those of a very large job have no room in an environment: they are in a file that it names.
    """
    if "PAI_TASKS_FILE" not in environment:
        return environment
    import json  # noqa: PLC0415 - for large jobs only

    with open(environment["PAI_TASKS_FILE"], "rb") as file:  # noqa: PTH123 - pathlib is slow to import
        told: Mapping[str, str] = json.load(file)
    return {**environment, **told}
