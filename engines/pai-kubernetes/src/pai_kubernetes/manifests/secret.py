"""The Secrets of a run: the secret inputs of its tasks, and the credentials for its images."""

import json
from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import Any, Final

from pai_kubernetes.manifests.run_objects import RunObjects
from pai_pod.engine import DOCKER_HUB, JOB_FILE, TaskImage
from pai_runtime.engine import CannotRun
from pai_runtime.engine.jobs import secret_texts

_DOCKER_HUB: Final = "https://index.docker.io/v1/"


def job_secret(run: RunObjects, run_secret: str) -> dict[str, Any]:
    """Return the Secret with the job's secrets, the run's own, and a job file that contains secrets."""
    data = {"userExtensionSecrets.yaml": {"run": run_secret}}
    if run.job.secrets:
        data["secrets.yaml"] = secret_texts(run.job.secrets)
    texts = {key: json.dumps(document, ensure_ascii=False) for key, document in data.items()}
    if run.job_file.is_secret:
        texts[JOB_FILE] = run.job_file.text
    return run.object("v1", "Secret", run.secrets, type="Opaque", data=_encoded(texts))


def pull_secret(run: RunObjects, images: Collection[TaskImage]) -> dict[str, Any] | None:
    """Return the Secret with the credentials for the images of a job; None if there are none.

    Raises `CannotRun` for two logins at Docker Hub, which has only one place for them.
    """
    logins: dict[str, dict[str, str]] = {}
    for image in images:
        if image.reference is None or image.credentials is None:
            continue
        reference, credentials = image.reference, image.credentials
        is_hub = reference.registry == DOCKER_HUB
        key = _DOCKER_HUB if is_hub else f"{reference.registry}/{reference.repository}"
        pair = f"{credentials.username}:{credentials.password}"
        login = {
            "username": credentials.username,
            "password": credentials.password,
            "auth": b64encode(pair.encode()).decode(),
        }
        if logins.setdefault(key, login) != login:
            raise CannotRun(
                f"{image.where.position}: {image.where.field}: a second login for {key.removesuffix('/')};"
                " a run can have one for an image, and one for all of Docker Hub"
            )
    if not logins:
        return None
    texts = {".dockerconfigjson": json.dumps({"auths": logins}, ensure_ascii=False, sort_keys=True)}
    kind = "kubernetes.io/dockerconfigjson"
    return run.object("v1", "Secret", run.pull_secret, type=kind, data=_encoded(texts))


def _encoded(texts: Mapping[str, str]) -> dict[str, str]:
    return {key: b64encode(text.encode()).decode() for key, text in sorted(texts.items())}
