"""What produced a run, for the annotation of its JobSet."""

import json
from collections.abc import Iterable

from pai_kubernetes.labels import MOST_PROVENANCE
from pai_runtime.engine import Plan, RunRequest
from pai_runtime.engine.jobs import with_plugins


def provenance_text(request: RunRequest, plans: Iterable[Plan]) -> str:
    """Return what produced a run, as JSON in ASCII; empty if that is unknown, or too long.

    The text of the job is left out, for it is in the ConfigMap; it stays there as None if it is not to be
    kept, since there are secrets in it.
    """
    if not request.provenance:
        return ""
    found = dict(with_plugins(request.provenance, plans))
    job = found.get("job") or {}
    found["job"] = {key: value for key, value in job.items() if key != "text" or value is None}
    text = json.dumps(found, separators=(",", ":"))
    return text if len(text) <= MOST_PROVENANCE else ""
