"""What produced a run, from its JobSet, its ConfigMap and its pods, which others may have changed."""

from collections.abc import Iterable, Mapping
from typing import Any

from pai_kubernetes.api.fields import annotation, words
from pai_kubernetes.labels import APP, INIT, MOST_PROVENANCE, PROVENANCE
from pai_kubernetes.run.pods import TaskPod
from pai_network.fields import json_object, mappings


def read_provenance(jobset: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the annotation of a JobSet says; empty if that is nothing, or invalid."""
    text = annotation(jobset, PROVENANCE)
    return (json_object(text) or {}) if len(text) <= MOST_PROVENANCE else {}


def images(pods: Iterable[TaskPod]) -> Mapping[str, str]:
    """Return the digests of the images that pods run, as their nodes tell, by task role.

    That of the runtime's image has the key ``(runtime)``, which no role has.
    """
    found: dict[str, set[str]] = {}
    for pod in pods:
        for kind, container, key in (
            ("containerStatuses", APP, pod.task[0]),
            ("initContainerStatuses", INIT, "(runtime)"),
        ):
            for status in mappings(pod.document, "status", kind):
                if status.get("name") == container and (image := words(status, "imageID")):
                    found.setdefault(key, set()).add(image)
    return {key: ", ".join(sorted(each)) for key, each in found.items()}
