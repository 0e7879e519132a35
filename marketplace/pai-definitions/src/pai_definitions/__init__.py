"""Shared prerequisites outside the job file: how they are referred to, found, read and rendered.

A *definition* is a prerequisite that others may require, with template variables that they give it. It stands
in a *definition file*, which comes from a source: a folder, a URL, or a marketplace server. Nothing in here
knows of jobs but the commands; `pai_runtime.job.expansion` puts definitions into one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pai_runtime.plugin import hookimpl

if TYPE_CHECKING:
    from pai_document.value import Value
    from pai_runtime.definitions import Definitions


@hookimpl
def pai_definitions(
    job: Path | None,
    lock: Path | None,
    secrets: "Mapping[str, Value]",
    refusal: Callable[[str], str | None],
) -> "Definitions":
    """Open the definitions of a job file, or of the job of a pod."""
    from pai_definitions.job_library import open_beside, open_in_pod  # noqa: PLC0415 - commands need less

    return open_in_pod(lock, secrets, refusal) if job is None else open_beside(job, secrets, refusal)
