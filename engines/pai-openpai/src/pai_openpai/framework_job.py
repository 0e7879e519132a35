"""A Framework, FrameworkController's object for a job, as what the platform knows of the job of a pod."""

from typing import Final

from pai_openpai.framework import BadFramework, Framework
from pai_openpai.listed_codes import listed_codes
from pai_openpai.placement import framework_placement, framework_task
from pai_pod.errors import InitFailed
from pai_pod.steps import PlatformJob, Pod
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import Placement, TaskName
from pai_task.exit_codes import INIT_FAILED

FRAMEWORK_FILE: Final = "framework.json"
"""The file in the directory of init plugins where commands write and read the Framework."""


class FrameworkJob(PlatformJob):
    """The job of a Framework."""

    def __init__(self, framework: Framework, pod: Pod) -> None:
        self._framework = framework
        self._attempt = f"{framework_uid(pod)} {pod.environment.get('FC_FRAMEWORK_ATTEMPT_ID', '')}"

    @property
    def job_file(self) -> str | None:
        """The text of the job file in the annotation of the Framework."""
        return self._framework.job_file

    @property
    def attempt(self) -> str:
        """The UID of the Framework, and the number of its attempt."""
        return self._attempt

    @property
    def has_tai64n_names(self) -> bool:
        """OpenPAI's log manager knows earlier files by these names."""
        return True

    def task(self, job: Job, pod: Pod) -> TaskName:
        """Return the task that the pod is, as FrameworkController says it."""
        return framework_task(job, pod.environment)

    def placement(self, job: Job, pod: Pod) -> Placement:
        """Return the placement that follows from the pods that FrameworkController has made."""
        codes = listed_codes(pod.directories)
        folder = str(pod.directories.runtime)
        try:
            return framework_placement(self._framework, job, pod.environment, folder, codes)
        except BadFramework as error:
            raise InitFailed(INIT_FAILED, str(error)) from None


def without_framework(pod: Pod) -> str:
    """Return why the init steps of Frameworks are skipped in a pod; empty if it is part of one."""
    has_framework = pod.peers is None and pod.environment.get("FC_FRAMEWORK_NAME")
    return "" if has_framework else "FC_FRAMEWORK_NAME is not set, so this pod has no Framework"


def framework_uid(pod: Pod) -> str:
    """Return the UID of the Framework that the pod is part of; empty if unknown."""
    return pod.environment.get("FC_FRAMEWORK_UID", "")
