"""Reading a job file: every problem of it at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from pai_runtime.document.document import Document, Node
from pai_runtime.document.problems import InvalidInput, Position, Problem
from pai_runtime.document.schemas import check_document, package_schema
from pai_runtime.job.model import Job, build_job
from pai_runtime.job.references import Renderer
from pai_runtime.job.rules import check_rules
from pai_runtime.job.secrets import check_size


def load_job(path: Path, secrets_file: Path | None = None) -> tuple[Job, list[Problem]]:
    """The job in a file, with what is wrong with it; raises `InvalidInput` for a file that is no document.

    `secrets_file` is YAML, a mapping from names to values; it completes and overrides the job's own.
    """
    document = Document.read(path)
    if not isinstance(document.root.data, dict):
        message = "is not a job: expected a mapping, which begins with protocolVersion: 2"
        raise InvalidInput([Problem(message, document.place(document.root))])
    job = build_job(document, _read_secrets(secrets_file) if secrets_file else {})
    problems = list(check_document(document, package_schema("pai_runtime.job", "job.schema.json"), job.mask))
    problems += check_rules(job)
    own_place = document.position(("secrets",))
    problems += check_size(job.secrets, Position(str(secrets_file), 1, 1) if secrets_file else own_place)
    for prerequisite in job.prerequisites.values():
        Renderer(job, None, prerequisite, problems).value(prerequisite.node, prerequisite.path)
    return job, problems


def _read_secrets(path: Path) -> Mapping[str, Node]:
    document = Document.read(path)
    if not isinstance(document.root.data, dict):
        raise InvalidInput(
            [Problem("is not a secrets file: expected a mapping", document.place(document.root))]
        )
    return cast("Mapping[str, Node]", document.root.children)
