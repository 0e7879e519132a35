"""The JobSet of a run, with an Indexed Job for each task role, whose completion indexes are its tasks'."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pai_kubernetes import labels
from pai_kubernetes.api.paths import JOBSET_API
from pai_kubernetes.manifests.policies import Policies
from pai_kubernetes.manifests.resources import virtual_cluster
from pai_kubernetes.manifests.run_objects import RunObjects


def job_set(
    run: RunObjects, policies: Policies, pods: Mapping[str, Mapping[str, Any]], provenance: str = ""
) -> dict[str, Any]:
    """Return the JobSet; `pods` are the templates of the pods by role, `provenance` what produced the run."""
    spec = {
        # Names count before a pod is ready: the tasks of a gang wait for each other's.
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": run.name},
        **policies.jobset,
        **({"ttlSecondsAfterFinished": run.profile.ttl} if run.profile.ttl is not None else {}),
        "replicatedJobs": [_replicated_job(run, role, policies, pods[role]) for role in run.roles],
    }
    document = run.object(JOBSET_API, "JobSet", run.name, spec=spec)
    document["metadata"]["annotations"] |= {labels.ROLES: _roles(run), labels.FILE: _file(run)}
    if run.job.hold:
        document["metadata"]["annotations"][labels.HOLD] = f"{run.job.hold:g}"
    if provenance:
        document["metadata"]["annotations"][labels.PROVENANCE] = provenance
    cluster = virtual_cluster(run.job, run.profile)
    queue = {labels.QUEUE: cluster.queue, labels.PRIORITY: cluster.workload_priority_class}
    document["metadata"]["labels"] |= {key: value for key, value in queue.items() if value}
    return document


def first_pod(jobset: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the first pod of a replicated job, by number, as the controllers of JobSet and Job make it.

    It has no owner, since there is none yet: webhooks such as Kueue's look for it.
    """
    run, replicated = jobset["metadata"]["name"], jobset["spec"]["replicatedJobs"][number]
    template, name = replicated["template"]["spec"]["template"], f"{run}-{replicated['name']}-0-0"
    made = {
        labels.JOBSET_NAME: run,
        labels.REPLICATED_JOB: replicated["name"],
        labels.COMPLETION_INDEX: "0",
    }
    metadata = {
        "name": name,
        "labels": template["metadata"]["labels"] | made,
        "annotations": template["metadata"]["annotations"] | made,
    }
    network = {"hostname": name, "subdomain": jobset["spec"]["network"]["subdomain"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] | network}


def _replicated_job(run: RunObjects, role: str, policies: Policies, pod: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": run.roles[role],
        "replicas": 1,
        "template": {
            "metadata": {
                "labels": run.labels(**{labels.ROLE: role}),
                "annotations": run.annotations(**{labels.ROLE: role}),
            },
            "spec": {**policies.jobs[role], "template": pod},
        },
    }


def _file(run: RunObjects) -> str:
    """Return the name of the job file, with invalid UTF-8 replaced for JSON."""
    return os.fsencode(Path(run.job.file).name).decode("utf-8", "replace")


def _roles(run: RunObjects) -> str:
    roles = {
        role: {"name": name, "instances": run.job.roles[role].instances} for role, name in run.roles.items()
    }
    return json.dumps(roles, separators=(",", ":"))
