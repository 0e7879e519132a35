"""The text of a job that is submitted."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from pai_runtime.engine import Job, RunRequest
from pai_runtime.engine.jobs import secret_texts

SUBMISSION: Final = "submission"


def submitted_text(job: Job, request: RunRequest, name: str, virtual_cluster: str, submission: str) -> str:
    """Return the YAML of a job under a name, with its secrets."""
    del request
    document: dict[str, Any] = {**job.value.data, "name": name}
    document["taskRoles"] = {
        role: {"instances": 1, **each} for role, each in document.get("taskRoles", {}).items()
    }
    document["extras"] = {
        **(document.get("extras") or {}),
        "submitFrom": "pai-runtime",
        SUBMISSION: submission,
    }
    if virtual_cluster and "virtualCluster" not in (document.get("defaults") or {}):
        document["defaults"] = {**(document.get("defaults") or {}), "virtualCluster": virtual_cluster}
    secrets: Mapping[str, Any] = secret_texts(job.secrets)
    document.pop("secrets", None)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    return text + (yaml.safe_dump({"secrets": secrets}, sort_keys=False, width=1000) if secrets else "")
