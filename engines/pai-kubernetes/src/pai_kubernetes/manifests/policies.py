"""Completion and retries of a job, as fields of Jobs and of their JobSet."""

from collections.abc import Mapping
from typing import Any

from pai_runtime.task.record import record


@record(frozen=True)
class Policies:
    """`jobs` are fields of the spec of each role's Job, by role, `jobset` those of the JobSet's spec."""

    jobs: Mapping[str, Mapping[str, Any]]
    jobset: Mapping[str, Any]
