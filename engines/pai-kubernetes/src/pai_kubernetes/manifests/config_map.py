"""The ConfigMaps of a run, with its job and its code."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from pai_kubernetes.manifests.peers import run_peers
from pai_kubernetes.manifests.run_objects import RunObjects
from pai_pod.engine import run_files
from pai_runtime.engine import CannotRun
from pai_runtime.engine.code import ARCHIVE
from pai_runtime.engine.jobs import secret_in


def job_config_map(run: RunObjects) -> dict[str, Any]:
    """Return the ConfigMap that the init containers read.

    Raises `CannotRun` if a parameter of the command line contains the value of a secret.
    """
    request = run.request
    for parameter, text in request.overrides.parameters.items():
        if name := secret_in(run.job.secrets, text):
            raise CannotRun(
                f"--set {parameter}: the value of the secret '{name}' is in it, where whoever may see the run"
                f" could read it; expected <% $secrets.{name} %> in the job"
            )
    peers = run_peers(run.job, run.name, run.roles, request.user)
    data = run_files(peers, run.job_file, request.overrides, request.definitions)
    return run.object("v1", "ConfigMap", run.job_config, data=data)


def code_config_maps(run: RunObjects) -> Iterator[dict[str, Any]]:
    """Return the ConfigMaps with the parts of the code, which the init containers unpack.

    No kubelet watches what is immutable.
    """
    for name, part in run.code_configs.items():
        data = {ARCHIVE: b64encode(part).decode()}
        yield run.object("v1", "ConfigMap", name, binaryData=data, immutable=True)
