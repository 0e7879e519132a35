"""The configuration and environment that an engine gives to the pods of a run, besides the job's secrets.

They have no access to the Kubernetes API: the job, what the command line changes of it and how the tasks
reach each other come in a ConfigMap, and which pod it is comes by the downward API.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pai_document.problems import InvalidInput, Position, Problem, unexpected
from pai_pod.config_files import find_file, read_text
from pai_pod.directories import Directories
from pai_pod.peers import FILE, Peers
from pai_pod.placement import UnknownTask
from pai_runtime.definitions import RESOLVED
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides
from pai_runtime.job.without_secrets import JobFile
from pai_runtime.plan.attempt_variables import Attempt, attempt_variables
from pai_runtime.plan.environment import TaskName
from pai_task.fast_json import loads
from pai_task.plan import PLATFORM, Variable

JOB_FILE: Final = "job_config.yaml"
"""The name of the job file in the configuration, and of its copy in the task's folder."""
OVERRIDES_FILE: Final = "overrides.json"

_MOST_DIGITS = 9
_Read = TypeVar("_Read")


def run_files(peers: Peers, job: JobFile, overrides: Overrides, definitions: str) -> dict[str, str]:
    """Return the configuration of a run: texts by the names of their files, without any value of a secret.

    A job that contains one is to be among the secrets, as `JOB_FILE`. `definitions` is a lock file, or empty.
    """
    files = {FILE: _json(peers.to_json())}
    if not job.is_secret:
        files[JOB_FILE] = job.text
    if overrides != NO_OVERRIDES:
        files[OVERRIDES_FILE] = _json(overrides.to_json())
    if definitions:
        files[RESOLVED] = definitions
    return files


def given_peers(directories: Directories) -> Peers | None:
    """Return how the tasks of the run reach each other; None if no engine made the pod from a job.

    Raises `InvalidInput`.
    """
    return _given(directories, FILE, Peers.from_json)


def given_job(directories: Directories) -> Path:
    """Return the path of the job file, which is among the secrets if it contains any.

    Raises `InvalidInput`.
    """
    path = find_file((*directories.configs, directories.secrets), JOB_FILE)
    if path is None:
        where = Position(str(directories.config))
        raise InvalidInput([Problem("no-job", f"expected the job beside {FILE}, in {JOB_FILE}", where)])
    return path


def given_overrides(directories: Directories) -> Overrides:
    """Return the overrides of the command line. Raises `InvalidInput`."""
    return _given(directories, OVERRIDES_FILE, Overrides.from_json) or NO_OVERRIDES


def engine_variables(peers: Peers, own: TaskName, environment: Mapping[str, str]) -> tuple[Variable, ...]:
    """Return FrameworkController's variables, from what the environment says of the pod.

    Raises `UnknownTask`.
    """
    attempt = Attempt(
        of_job=_number(environment, "PAI_JOB_ATTEMPT"),
        # A pod that takes the place of one that was evicted is another attempt, which counts as no failure.
        of_task=_number(environment, "PAI_TASK_ATTEMPT") + _number(environment, "PAI_TASK_EVICTIONS"),
        namespace=environment.get("PAI_POD_NAMESPACE") or Attempt().namespace,
        run_uid=environment.get("PAI_JOBSET_UID", ""),
        pod=environment.get("PAI_POD_NAME", ""),
        pod_uid=environment.get("PAI_POD_UID", ""),
    )
    found = attempt_variables(peers.framework, *own, attempt)
    return tuple(Variable(name, value, PLATFORM) for name, value in found.items())


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, indent=1) + "\n"


def _given(directories: Directories, name: str, read: Callable[[Any], _Read]) -> _Read | None:
    path = find_file(directories.configs, name)
    if path is None:
        return None
    try:
        return read(loads(read_text(path)))
    except (ValueError, RecursionError) as error:
        raise InvalidInput([Problem("not-from-engine", str(error), Position(str(path)))]) from None


def _number(environment: Mapping[str, str], variable: str) -> int:
    text = environment.get(variable) or "0"
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise UnknownTask(f"{variable}: {unexpected('the number of an attempt, from 0', ascii(text))}")
    return int(text)
