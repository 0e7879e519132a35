"""The variables about peers that all tasks of a run share, reconstructed from its ConfigMap."""

import json
from collections.abc import Mapping

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.fields import mapping, string
from pai_kubernetes.api.paths import config_maps
from pai_kubernetes.names import job_config_name
from pai_pod.given_run import JOB_FILE, OVERRIDES_FILE
from pai_pod.peers import FILE as PEERS
from pai_pod.peers import Peers
from pai_pod.placement import peers_placement
from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import InvalidInput, Problems
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.load import load_job
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides
from pai_runtime.plan.environment import JobEnvironment, TaskName
from pai_runtime.plan.planning import job_plugins
from pai_runtime.task.paths import VOLUME
from pai_runtime.task.plan import SharedVariables


def shared_variables(api: Api, run: str, addresses: Mapping[TaskName, str]) -> SharedVariables:
    """Return the shared variables of a run, with the known addresses. Raises `ApiError`, or `ValueError`."""
    name = job_config_name(run)
    data = mapping(api.get(config_maps(api.namespace, name)), "data")
    try:
        peers = Peers.from_json(json.loads(string(data, PEERS)))
        overrides = string(data, OVERRIDES_FILE)
        changes = Overrides.from_json(json.loads(overrides)) if overrides else NO_OVERRIDES
        root = parse_document(string(data, JOB_FILE), JOB_FILE)
        # Definitions are not looked for: they say nothing of where tasks are.
        job = load_job(root, None, job_plugins(given_host(None)), Problems(), changes)
        return JobEnvironment(job, peers_placement(job, peers, addresses, VOLUME)).shared
    except (InvalidInput, ValueError, LookupError, RecursionError):
        raise ValueError(
            f"{api.label}: the job in the ConfigMap {name} cannot be read; it may be in the Secret of the run"
        ) from None
