"""A Framework, FrameworkController's object for a job, as what the platform knows of the job of a pod."""

from typing import Final

from pai_openpai.framework import BadFramework, Framework
from pai_openpai.listed_codes import listed_codes
from pai_openpai.placement import framework_placement
from pai_pod.errors import InitFailed
from pai_pod.steps import PlatformJob, Pod
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import Placement
from pai_runtime.task.exit_codes import INIT_FAILED

FRAMEWORK_FILE: Final = "framework.json"
"""The file in the directory of init plugins where commands write and read the Framework."""


class FrameworkJob(PlatformJob):
    """The job of a Framework."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework

    @property
    def job_file(self) -> str | None:
        """The text of the job file in the annotation of the Framework."""
        return self._framework.job_file

    def placement(self, job: Job, pod: Pod) -> Placement:
        """Return the placement that follows from the pods that FrameworkController has made."""
        codes = listed_codes(pod.directories)
        folder = str(pod.directories.runtime)
        try:
            return framework_placement(self._framework, job, pod.environment, folder, codes)
        except BadFramework as error:
            raise InitFailed(INIT_FAILED, str(error)) from None


def framework_uid(pod: Pod) -> str:
    """Return the UID of the Framework that the pod is part of; empty if unknown."""
    return pod.environment.get("FC_FRAMEWORK_UID", "")
