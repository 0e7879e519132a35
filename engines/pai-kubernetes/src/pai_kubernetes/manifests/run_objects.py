"""What all objects of a run have in common."""

from collections.abc import Mapping
from typing import Any

from pai_kubernetes import labels
from pai_kubernetes.manifests.job_config import JobFile
from pai_kubernetes.names import job_config_name, label_value
from pai_kubernetes.profile import KubernetesProfile
from pai_runtime.engines.cluster import ClusterRequest
from pai_runtime.job.model import Job
from pai_runtime.task.record import record


@record(frozen=True)
class RunObjects:
    """A run that is rendered: its name, those of its replicated jobs by role, and what it is made of."""

    name: str
    roles: Mapping[str, str]
    job: Job
    request: ClusterRequest
    profile: KubernetesProfile
    has_pull_secret: bool
    job_file: JobFile

    @property
    def job_config(self) -> str:
        """The ConfigMap with the job."""
        return job_config_name(self.name)

    @property
    def code_config(self) -> str:
        """The ConfigMap with the code; empty if there is none."""
        return f"{self.name}-code" if self.request.code else ""

    @property
    def secrets(self) -> str:
        """The Secret with the values of the job's secrets."""
        return f"{self.name}-secrets"

    @property
    def pull_secret(self) -> str:
        """The Secret with the logins for the job's images; there is one only if they need any."""
        return f"{self.name}-pull"

    @property
    def pull_secrets(self) -> list[str]:
        """The Secrets with which images are pulled."""
        own = [self.pull_secret] if self.has_pull_secret else []
        return [*self.profile.image_pull_secrets, *own]

    def labels(self, **more: str) -> dict[str, str]:
        """Labels of an object, by which others find it."""
        given = {labels.JOB: self.job.name, labels.USER: self.request.user, **more}
        return {labels.RUN: self.name, **{key: label_value(text) for key, text in given.items()}}

    def annotations(self, **more: str) -> dict[str, str]:
        """The same with all texts as they were written."""
        return {labels.JOB: self.job.name, labels.USER: self.request.user, **more}

    def object(self, version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        """An object of the run."""
        namespace = {"namespace": self.profile.namespace} if self.profile.namespace else {}
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": {
                "name": name,
                **namespace,
                "labels": self.labels(),
                "annotations": self.annotations(),
            },
            **fields,
        }
