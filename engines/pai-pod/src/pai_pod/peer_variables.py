"""The variables about peers that all tasks of a run share, from what a pod was given of the job."""

import json
from collections.abc import Mapping
from typing import Any

from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Problems
from pai_pod.given_run import JOB_FILE, OVERRIDES_FILE
from pai_pod.peers import FILE, Peers
from pai_pod.placement import peers_placement
from pai_pod.told_variables import with_peers
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.load import load_job
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides
from pai_runtime.plan.environment import JobEnvironment, TaskName
from pai_runtime.plan.planning import job_plugins
from pai_task.paths import VOLUME


def with_given_peers(
    told: Mapping[str, Any], given: Mapping[str, str], addresses: Mapping[TaskName, str]
) -> dict[str, Any]:
    """Return the variables that a task has told, with those about its peers, whose known addresses these are.

    `given` are the files of the job's configuration by name, as the pod has them. Raises `ValueError` if they
    cannot be read.
    """
    try:
        peers = Peers.from_json(json.loads(given.get(FILE, "")))
        overrides = given.get(OVERRIDES_FILE, "")
        changes = Overrides.from_json(json.loads(overrides)) if overrides else NO_OVERRIDES
        root = parse_document(given.get(JOB_FILE, ""), JOB_FILE)
        # Definitions are not looked for: they say nothing of where tasks are.
        job = load_job(root, None, job_plugins(given_host(None)), Problems(), changes)
        places = peers_placement(job, peers, addresses, VOLUME)
        return with_peers(told, JobEnvironment(job, places).shared)
    except (InvalidInput, ValueError, LookupError, RecursionError):
        raise ValueError("the job that the pods were given cannot be read") from None
