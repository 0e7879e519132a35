"""A job that is to run on a cluster, with its plans."""

import argparse
from pathlib import Path

from pai_runtime.cli.overrides import given_overrides
from pai_runtime.cli.user import user_name
from pai_runtime.document.problems import Problems
from pai_runtime.engines.cluster import Cluster, ClusterRequest, NewClusterRun
from pai_runtime.engines.code import Code, find_code
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.model import Job
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.task.plan import Plan


class ClusterJob:
    """A job, its new run as the command line requests it, and the plans of all its tasks.

    Faults are added to `problems`; raises `InvalidInput` if one is an error, and `CannotRun`. A plugin that
    is not installed here may be in the cluster's runtime image.
    """

    job: Job
    run: NewClusterRun
    code: Code | None
    plans: dict[TaskName, Plan]

    def __init__(self, path: Path, args: argparse.Namespace, cluster: Cluster, problems: Problems) -> None:
        host = given_host(args.policy)
        self._args = args
        self._cluster = cluster
        self._definitions = JobDefinitions(host, path)
        strict = getattr(args, "strict_callbacks", False)
        self._overrides = given_overrides(args, strict_callbacks=strict)
        files = JobFiles(path, args.secrets, self._overrides, self._definitions)
        self.plans = plan_job(files, host, self._place, problems, lenient=True).plans()
        problems.check()

    def _place(self, job: Job) -> Placement:
        args = self._args
        left_out = [Path(job.file), *filter(None, [args.secrets])]
        self.job = job
        self.code = find_code(job, getattr(args, "code", None), left_out)
        request = ClusterRequest(user_name(), self._overrides, self.code, self._definitions.resolved())
        self.run = self._cluster.new_run(request)
        return self.run.place(job)
