"""The common parts of all objects of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pai_kubernetes import labels
from pai_kubernetes.names import job_config_name, label_value
from pai_kubernetes.profile import KubernetesProfile, Storage
from pai_pod.engine import code
from pai_runtime.engine import Job, RunRequest
from pai_runtime.engine.code import Carrier, PackedCode
from pai_runtime.engine.jobs import JobFile

CONFIG_MAPS: Final = Carrier(
    "the ConfigMaps that carry it where the engine profile names no storage for code",
    code.MOST_PARTS * code.MOST_PART,
)


def code_parts(packed: PackedCode) -> list[bytes]:
    """Return the parts in which code comes to a pod in ConfigMaps; none if it is too large for them."""
    archive = packed.archive if CONFIG_MAPS.can_carry(packed) else b""
    return [archive[start : start + code.MOST_PART] for start in range(0, len(archive), code.MOST_PART)]


@dataclass(frozen=True)
class RunObjects:
    """A run that is being rendered: its name, those of its replicated jobs by role, and its inputs."""

    name: str
    roles: Mapping[str, str]
    job: Job
    request: RunRequest
    profile: KubernetesProfile
    has_pull_secret: bool
    job_file: JobFile
    code: PackedCode | None

    @property
    def job_config(self) -> str:
        """The name of the ConfigMap with the job."""
        return job_config_name(self.name)

    @property
    def code_configs(self) -> dict[str, bytes]:
        """The parts of the code by the names of their ConfigMaps; empty if there is no code."""
        parts = code_parts(self.code) if self.code else ()
        return {f"{self.name}-code-{number}": part for number, part in enumerate(parts)}

    @property
    def code_storage(self) -> Storage | None:
        """The storage from which the pods get the code; None if there is none, or it is in ConfigMaps."""
        is_stored = self.code is not None and not CONFIG_MAPS.can_carry(self.code)
        return self.profile.code.storage if is_stored and self.profile.code else None

    @property
    def secrets(self) -> str:
        """The name of the Secret with the values of the job's secrets."""
        return f"{self.name}-secrets"

    @property
    def pull_secret(self) -> str:
        """The name of the Secret with credentials for the job's images, which exists if they need any."""
        return f"{self.name}-pull"

    @property
    def pull_secrets(self) -> list[str]:
        """The names of the Secrets with which images are pulled."""
        own = [self.pull_secret] if self.has_pull_secret else []
        return [*self.profile.image_pull_secrets, *own]

    def labels(self, **more: str) -> dict[str, str]:
        """Return the labels of an object, by which it is selected."""
        given = {labels.JOB: self.job.name, labels.USER: self.request.user, **more}
        return {labels.RUN: self.name, **{key: label_value(text) for key, text in given.items()}}

    def annotations(self, **more: str) -> dict[str, str]:
        """Return the annotations of an object, which have the texts of its labels unchanged."""
        return {labels.JOB: self.job.name, labels.USER: self.request.user, **more}

    def object(self, version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        """Return an object of the run."""
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
