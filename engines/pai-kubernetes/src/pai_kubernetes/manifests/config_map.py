"""The ConfigMaps of a run, with its job and its code."""

import json
from base64 import b64encode
from typing import Any

from pai_kubernetes.manifests.code_archive import code_archive
from pai_kubernetes.manifests.peers import run_peers
from pai_kubernetes.manifests.run_objects import RunObjects
from pai_pod.engine import ARCHIVE, JOB_FILE, OVERRIDES_FILE, PEERS_FILE
from pai_runtime.definitions import RESOLVED
from pai_runtime.engine import CannotRun, Code
from pai_runtime.engine.jobs import secret_values
from pai_runtime.job.overrides import NO_OVERRIDES
from pai_runtime.task.masking import Masks


def job_config_map(run: RunObjects) -> dict[str, Any]:
    """Return the ConfigMap that the init containers read."""
    request = run.request
    _check_overrides(run)
    peers = run_peers(run.job, run.name, run.roles, request.user)
    data = {PEERS_FILE: _json(peers.to_json())}
    if not run.job_file.is_secret:
        data[JOB_FILE] = run.job_file.text
    if request.overrides != NO_OVERRIDES:
        data[OVERRIDES_FILE] = _json(request.overrides.to_json())
    if request.definitions:
        data[RESOLVED] = request.definitions
    return run.object("v1", "ConfigMap", run.job_config, data=data)


def _check_overrides(run: RunObjects) -> None:
    """Raise `CannotRun` if a parameter of the command line contains the value of a secret."""
    secrets = secret_values(run.job.secrets)
    for parameter, text in run.request.overrides.parameters.items():
        if name := next((each for each, value in secrets.items() if Masks([value]).is_in(text)), None):
            raise CannotRun(
                f"--set {parameter}: the value of the secret '{name}' is in it, where whoever may see the run"
                f" could read it; expected <% $secrets.{name} %> in the job"
            )


def code_config_map(run: RunObjects, code: Code) -> dict[str, Any]:
    """Return the ConfigMap with the code, which the init containers unpack. Raises `CannotRun`."""
    archive = b64encode(code_archive(code)).decode()
    return run.object("v1", "ConfigMap", run.code_config, binaryData={ARCHIVE: archive})


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, indent=1) + "\n"
