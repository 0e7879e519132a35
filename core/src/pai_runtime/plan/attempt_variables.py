"""FrameworkController's variables where there is no FrameworkController: as the cluster says, or invented.

A local task is given them at each start, since no plan has what says which attempt it is in; a pod is made
anew for each attempt, and so they are in its plan.
"""

import uuid

from pai_task.names import JOB_ATTEMPT, framework_name
from pai_task.record import record

_NAMESPACE = uuid.UUID("6f1d2b0e-5f3c-4a53-9b0e-7b3a4d1c2e90")
"""UUID namespace of the identifiers, which are equal for the same attempt of the same run."""


@record(frozen=True)
class Attempt:
    """The attempt of the job, and the attempt of the task in it; both count from 0.

    The other fields are what a cluster knows, and empty where it says nothing: the UID of the run, and the
    name and UID of the task's pod.
    """

    of_job: int = 0
    of_task: int = 0
    namespace: str = "default"
    run_uid: str = ""
    pod: str = ""
    pod_uid: str = ""


def attempt_variables(framework: str, role: str, index: int, attempt: Attempt) -> dict[str, str]:
    """Return the ``FC_*`` variables of one attempt of one task in the run `framework`."""
    short, run = framework_name(role), attempt.run_uid or framework
    run_uid = attempt.run_uid or _uid(framework)
    of_job, of_task = str(attempt.of_job), str(attempt.of_task)
    pod = f"{framework}-{short}-{index}"
    pod_uid = attempt.pod_uid or _uid(pod, of_job, of_task)
    return {
        "FC_FRAMEWORK_NAMESPACE": attempt.namespace,
        "FC_FRAMEWORK_NAME": framework,
        "FC_FRAMEWORK_UID": run_uid,
        "FC_FRAMEWORK_ATTEMPT_ID": of_job,
        JOB_ATTEMPT: f"{of_job}_{_uid(run, 'attempt', of_job)}",
        "FC_CONFIGMAP_NAME": f"{framework}-attempt",
        "FC_CONFIGMAP_UID": _uid(run, "attempt", of_job),
        "FC_TASKROLE_NAME": short,
        "FC_TASKROLE_UID": _uid(run, of_job, short),
        "FC_TASK_INDEX": str(index),
        "FC_TASK_UID": _uid(run, of_job, short, str(index)),
        "FC_TASK_ATTEMPT_ID": of_task,
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"{of_task}_{pod_uid}",
        "FC_POD_NAME": attempt.pod or pod,
        "FC_POD_UID": pod_uid,
    }


def _uid(*names: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "/".join(names)))
