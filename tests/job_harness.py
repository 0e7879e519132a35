"""Jobs without the command line around them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pai_runtime.document.document import Document
from pai_runtime.document.problems import Problem, in_order
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job, build_job
from pai_runtime.job.uses import JobUse, role_command, role_uses
from tests.support import write_job


class _Quoting(yaml.SafeDumper):
    """Writes every text in quotes, so that YAML 1.1 and 1.2 agree on what it is."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is the base class's
        return True


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, '"')
)


def yaml_text(data: Any) -> str:
    """Plain data as YAML, whatever its texts are."""
    text: str = yaml.dump(data, Dumper=_Quoting, sort_keys=False)
    return text


def build(document: Mapping[str, Any] | str, secrets: Mapping[str, Any] | None = None) -> Job:
    """The job, as far as it can be built; not checked. `secrets` is what a secrets file holds."""
    text = document if isinstance(document, str) else yaml_text(document)
    given = Document.parse(yaml_text(secrets), "secrets.yaml").root.children if secrets else {}
    return build_job(Document.parse(text, "job.yaml"), {str(name): node for name, node in given.items()})


def load(folder: Path, document: Mapping[str, Any] | str) -> tuple[Problem, ...]:
    """All problems of a job file, in order."""
    return in_order(load_job(write_job(folder, document))[1])


def uses(job: Job, role: str = "worker") -> tuple[list[JobUse], list[Problem]]:
    """The uses of a role, with what is wrong in them."""
    problems: list[Problem] = []
    return role_uses(job, job.roles[role], problems), problems


def parameters(job: Job, name: str, role: str = "worker") -> Any:
    """The parameters of the use of this name, in which nothing is wrong."""
    found, problems = uses(job, role)
    assert problems == []
    return next(use.parameters for use in found if use.name == name)


def command(job: Job, role: str = "worker") -> str:
    """The command of a role, in which nothing is wrong."""
    problems: list[Problem] = []
    script = role_command(job, job.roles[role], problems).script
    assert problems == []
    return script


def command_problems(job: Job, role: str = "worker") -> list[Problem]:
    """What is wrong in the command of a role."""
    problems: list[Problem] = []
    role_command(job, job.roles[role], problems)
    return problems
