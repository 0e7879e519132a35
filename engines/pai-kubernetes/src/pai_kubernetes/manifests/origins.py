"""The origins in a job of its JobSet's fields, so that the API server's errors lead to the job."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pai_kubernetes.manifests.storages import StorageVolumes
from pai_pod.engine import TaskImage
from pai_runtime.engine import Job, Location, TaskRole
from pai_runtime.engine.jobs import use_location

POD_TEMPLATE: Final = "spec.replicatedJobs[{}].template.spec.template"
"""The path of the template of a role's pods, to be formatted with the number of the role."""
_ROLE: Final = re.compile(r"spec\.replicatedJobs\[\d+\]")
_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_OF_JOB: Final[Mapping[str, tuple[str, ...]]] = {
    "template.spec.completions": ("instances",),
    "template.spec.parallelism": ("instances",),
    "template.spec.backoffLimitPerIndex": ("taskRetryCount",),
    "template.spec.maxFailedIndexes": ("completion", "minFailedInstances"),
    "template.spec.successPolicy": ("completion", "minSucceededInstances"),
}
_OF_CONTAINER: Final[Mapping[str, tuple[str, ...]]] = {
    "resources": ("resourcePerInstance",),
    "resources.limits.cpu": ("resourcePerInstance", "cpu"),
    "resources.limits.memory": ("resourcePerInstance", "memoryMB"),
    "resources.limits": ("resourcePerInstance", "gpu"),
    "resources.requests.cpu": ("resourcePerInstance", "cpu"),
    "resources.requests.memory": ("resourcePerInstance", "memoryMB"),
    "resources.requests": ("resourcePerInstance", "gpu"),
}
"""The fields of resources; limits other than CPU and memory are GPUs."""


@dataclass(frozen=True)
class Origins:
    """The locations in the job of what is at paths of its JobSet."""

    locations: Mapping[str, Location]

    def of(self, field_path: str) -> Location | None:
        """Return the location for the longest known path that contains a field; None if there is none.

        The path is as an API server writes it: ``spec.replicatedJobs[0].template.spec.completions``.
        """
        parts = _parts(field_path)
        for length in range(len(parts), 0, -1):
            if found := self._by_parts.get(parts[:length]):
                return found
        return None

    def of_pods(self, field_path: str) -> Location | None:
        """Return the location for a pod field, as ``spec.containers[0].image``, if all roles share it."""
        roles = sum(_ROLE.fullmatch(path) is not None for path in self.locations)
        found = {self.of(f"{POD_TEMPLATE.format(number)}.{field_path}") for number in range(roles)}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _by_parts(self) -> Mapping[tuple[str, ...], Location]:
        return {_parts(path): location for path, location in self.locations.items()}


def job_set_origins(
    job: Job,
    images: Mapping[str, TaskImage],
    storages: Mapping[str, StorageVolumes],
    pods: Mapping[str, Mapping[str, Any]],
    runtime_image: Location | None = None,
) -> Origins:
    """Return the origins of a JobSet with these pods; most arguments are by task role."""
    locations = {
        "spec": job.value.at(()),
        "spec.failurePolicy": job.value.at(("jobRetryCount",)),
        "metadata.name": job.value.at(("name",)),
        "metadata.labels": job.value.at(("defaults", "virtualCluster")),
    }
    for number, role in enumerate(job.roles.values()):
        base = f"spec.replicatedJobs[{number}]"
        locations |= {f"{base}.{path}": at for path, at in _of_role(role).items()}
        locations[base] = role.value.at(())
        pod = f"{POD_TEMPLATE.format(number)}.spec"
        locations[f"{pod}.containers[0].image"] = images[role.name].where
        if runtime_image is not None:
            locations |= {f"{pod}.initContainers[{each}].image": runtime_image for each in range(2)}
        used = {
            volume["name"]: use_location(job, role.name, *use)
            for volume, use in zip(storages[role.name].volumes, storages[role.name].uses, strict=True)
        }
        locations |= {f"{pod}.{path}": used[name] for path, name in _volumes(pods[role.name]) if name in used}
    return Origins(locations)


def _of_role(role: TaskRole) -> dict[str, Location]:
    pod = "template.spec.template.spec"
    places = {path: role.value.at(below) for path, below in _OF_JOB.items()}
    places |= {f"{pod}.containers[0].{path}": role.value.at(below) for path, below in _OF_CONTAINER.items()}
    if role.sku_type:
        places[f"{pod}.nodeSelector"] = role.sku_type.at(())
    return places


def _volumes(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path of each volume in a pod's spec, and of each mount of one, with the volume's name."""
    spec = pod["spec"]
    holders = {"volumes": spec["volumes"]} | {
        f"{kind}[{index}].volumeMounts": container["volumeMounts"]
        for kind in ("initContainers", "containers")
        for index, container in enumerate(spec[kind])
    }
    for path, holder in holders.items():
        for index, each in enumerate(holder):
            yield f"{path}[{index}]", each["name"]


def _parts(path: str) -> tuple[str, ...]:
    return tuple(match[1] or match[2] for match in _PART.finditer(path))
