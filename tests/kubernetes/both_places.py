"""A job on a cluster, by the model of its controllers, and the same in a local run: its tasks end alike."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pai_document.problems import Problems
from pai_kubernetes.manifests.policies import policies
from pai_runtime.job.model import Job
from pai_task.record import replace
from tests.job_harness import build
from tests.kubernetes.jobset_model import End, JobSet
from tests.kubernetes.local_decisions import LocalDecisions
from tests.support import job

TaskName = tuple[str, int]
Choice = Callable[[Sequence[TaskName]], tuple[TaskName, int]]
"""Of the tasks that are running, which is the next to end, and with what code."""

BASE = build(job())
ROLE = BASE.roles["worker"]

Moment = tuple[str | None, int, dict[TaskName, tuple[int, int]]]
"""The outcome, how often the job was restarted, and which attempts of tasks are running."""


def job_of(roles: Mapping[str, Mapping[str, Any]], **fields: Any) -> Job:
    made = {name: replace(ROLE, name=name, **role) for name, role in roles.items()}
    return replace(BASE, roles=made, **fields)


def refused(made: Job) -> set[str]:
    """Why the job is refused."""
    problems = Problems()
    policies(made, {role: role for role in made.roles}, {}, problems)
    return {problem.code for problem in problems.in_order}


class Both:
    """The same job in both places."""

    def __init__(self, job: Job, permanent: Mapping[str, Any], folder: Path) -> None:
        names = {role: f"job-{role}" for role in job.roles}
        problems = Problems()
        rendered = policies(job, names, permanent, problems)
        self.refused = {problem.code for problem in problems.in_order}
        self._cluster = JobSet(rendered.jobs, rendered.jobset, names)
        self._local = LocalDecisions(job, permanent, folder)

    def moments(self, choose: Choice) -> list[tuple[Moment, Moment]]:
        """What was the case in both places, until they differ or all is over; then that is the last one."""
        seen = [self._moment()]
        while seen[-1][0] == seen[-1][1] and seen[-1][0][0] is None:
            task, code = choose(sorted(self._local.running))
            self._cluster.pod_ended(task, End(code))
            self._local.task_ended(task, code)
            seen.append(self._moment())
        return seen

    def _moment(self) -> tuple[Moment, Moment]:
        local, cluster = self._local, self._cluster
        return (
            (local.outcome, local.restarts, local.running),
            (cluster.outcome, cluster.restarts, cluster.running),
        )
