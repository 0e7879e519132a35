"""Jobs without the command line around them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_document.document import parse_document
from pai_document.problems import Problem, Problems
from pai_document.schemas import located_in
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host, check_parameters
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.build import build_job
from pai_runtime.job.load import load_job, resolved
from pai_runtime.job.model import Job, JobUse
from pai_runtime.job.overrides import NO_OVERRIDES, Overrides, overridden
from pai_runtime.job.references import References
from pai_runtime.job.uses import RoleResolver
from pai_runtime.plan.build import PlannedRole, Planner
from pai_runtime.plan.environment import TaskName
from pai_runtime.plan.planning import JobFiles, job_plugins, plan_job, planned_roles
from pai_task.plan import Plan
from tests.support import write_job


class _Quoting(yaml.CSafeDumper):
    """Writes every text in quotes, so that YAML 1.1 and 1.2 agree on what it is."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is the base class's
        return True


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, '"')
)


def compared_words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the unknown words that are compared with known ones from now on, none of which is like them."""
    compared: list[str] = []

    def near_miss(word: str, known: object) -> None:  # noqa: ARG001 - stands for the real one
        compared.append(word)

    monkeypatch.setattr("pai_document.problems.near_miss", near_miss)
    return compared


def yaml_text(data: Any) -> str:
    """Plain data as YAML, whatever its texts are."""
    text: str = yaml.dump(data, Dumper=_Quoting, sort_keys=False)
    return text


_HOST = Host(NO_POLICY)
"""What is installed need not be found again for each job."""
_PLUGINS = job_plugins(_HOST)


def build(
    document: Mapping[str, Any] | str,
    secrets: Mapping[str, Any] | None = None,
    overrides: Overrides = NO_OVERRIDES,
) -> Job:
    """The job, as far as it can be built; not checked. `secrets` is what a secrets file holds."""
    text = document if isinstance(document, str) else yaml_text(document)
    given = parse_document(yaml_text(secrets), "secrets.yaml").values() if secrets else ()
    return build_job(
        overridden(parse_document(text, "job.yaml"), overrides, Problems()),
        {str(secret.key): secret for secret in given},
        _PLUGINS,
        Problems(),
    )


def load_file(path: Path) -> tuple[Job, tuple[Problem, ...]]:
    """The job in a file, and all its problems, in order."""
    problems = Problems()
    job = load_job(path, None, _PLUGINS, problems)
    return job, problems.in_order


def load(folder: Path, document: Mapping[str, Any] | str) -> tuple[Problem, ...]:
    """All problems of a job file, in order."""
    problems = Problems()
    with problems.caught():
        load_job(write_job(folder, document), None, _PLUGINS, problems)
    return problems.in_order


def resolver(job: Job, role: str) -> tuple[RoleResolver, Problems]:
    """What resolves the references in a role, and where it reports what is wrong with them."""
    problems = Problems()
    return RoleResolver(References(job, problems), job.roles[role], _PLUGINS.for_storages()), problems


def planned(path: Path, *only: TaskName) -> dict[TaskName, Plan]:
    """The plans of tasks of a job file; raises `InvalidInput`."""
    problems = Problems()
    planner = plan_job(JobFiles(path), _HOST, lambda job: example_placement(job, "alice"), problems)
    plans = planner.plans(*only)
    problems.check()
    return plans


def validated(path: Path) -> tuple[Problem, ...]:
    """All problems of a job file, as ``validate`` reports them."""
    problems = Problems()
    with problems.caught():
        placed = lambda job: example_placement(job, "alice")  # noqa: E731
        planner = plan_job(JobFiles(path), _HOST, placed, problems, lenient=True)
        planner.plans(*((role, 0) for role in planner.job.roles))
    return problems.in_order


def checked_roles(job: Job) -> tuple[list[PlannedRole], Sequence[Problem]]:
    """The roles of a job with their plugins, and what is wrong with what they use."""
    problems = Problems()
    complete = resolved(References(job, problems), _PLUGINS)
    return planned_roles(complete, _HOST, problems), problems.in_order


def all_plans(job: Job) -> dict[TaskName, Plan]:
    """The plans of all tasks of a job in which nothing is wrong."""
    problems = Problems()
    complete, host = resolved(References(job, problems), _PLUGINS), _HOST
    roles = planned_roles(complete, host, problems)
    plans = Planner(complete, host, roles, example_placement(complete, "user"), problems).plans()
    assert not problems.in_order
    return plans


def parameter_problems(id_: str, parameters: Mapping[str, Any]) -> Sequence[Problem]:
    """What is wrong with the parameters of a use of a plugin."""
    problems = Problems()
    check_parameters(_HOST.find(id_), parameters, problems, located_in("job.yaml"))
    return problems.in_order


def uses(job: Job, role: str = "worker") -> tuple[list[JobUse], Sequence[Problem]]:
    """The uses of a role, with what is wrong in them."""
    resolve, problems = resolver(job, role)
    return list(resolve.uses()), problems.in_order


def parameters(job: Job, name: str, role: str = "worker") -> Any:
    """The parameters of the use of this name, in which nothing is wrong."""
    found, problems = uses(job, role)
    assert not problems
    return next(use.parameters for use in found if use.name == name)


def command(job: Job, role: str = "worker") -> str:
    """The command of a role, in which nothing is wrong."""
    resolve, problems = resolver(job, role)
    script = resolve.command().script
    assert not problems.in_order
    return script


def command_problems(job: Job, role: str = "worker") -> Sequence[Problem]:
    """What is wrong in the command of a role."""
    resolve, problems = resolver(job, role)
    resolve.command()
    return problems.in_order
