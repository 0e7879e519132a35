"""A user of the stand-in for an OpenPAI cluster, in this process."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pai_document.document import parse_document
from pai_document.problems import Problem, Problems
from pai_openpai.client.engine import NewOpenpaiRun, OpenpaiCluster
from pai_openpai.client.reader import OpenpaiRunReader
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import RunRequest
from pai_runtime.engines.profiles import Profile
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.environment import TaskName
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.runs.state import Run
from pai_task.plan import Plan
from tests.openpai.jobs import Job
from tests.openpai.rest_server import OpenpaiServer, Request
from tests.support import until


def profile_of(url: str, **more: Any) -> Profile:
    fields = {"engine": "openpai", "url": url, **more}
    return Profile("lab", "openpai", parse_document(json.dumps(fields), "engines.yaml"))


class Planned:
    """A job that is to be submitted."""

    def __init__(
        self, cluster: OpenpaiCluster, given: Mapping[str, Any] | Path, code: Path | None = None
    ) -> None:
        self.problems = Problems()
        request = RunRequest("ada", code=Code(code) if code else None)
        self.new: NewOpenpaiRun = cluster.new_run(request)
        host, path = Host(NO_POLICY), given if isinstance(given, Path) else None
        source = path or parse_document(json.dumps(given), "job.yaml")
        files = JobFiles(source, open_definitions=JobDefinitions(host, path))
        planner = plan_job(files, host, self.new.place, self.problems)
        self.plans: dict[TaskName, Plan] = planner.plans()
        self.secrets = secret_values(planner.job.secrets)

    def checked(self) -> list[Problem]:
        self.new.check(self.plans, self.problems)
        return list(self.problems.in_order)

    def submit(self) -> OpenpaiRunReader:
        self.problems.check()
        return self.new.submit(self.plans, self.secrets)


class Lab:
    """The profile ``lab``, as another process opens it each time."""

    def __init__(self, server: OpenpaiServer, **profile: Any) -> None:
        self.server = server
        self.profile = profile_of(server.url, **profile)

    def opened(self) -> OpenpaiCluster:
        return OpenpaiCluster(self.profile)

    def planned(self, given: Mapping[str, Any] | Path, code: Path | None = None) -> Planned:
        return Planned(self.opened(), given, code)

    def submit(self, document: Mapping[str, Any]) -> OpenpaiRunReader:
        return self.planned(document).submit()

    def job(self, reader: OpenpaiRunReader) -> Job:
        """The job as the server has it."""
        return self.server.cluster.jobs[f"alice~{reader.named}"]

    def ended(self, reader: OpenpaiRunReader) -> Run:
        """The run as somebody sees it who looks once it is over."""
        self.job(reader).wait(lambda job: job.over)
        return run_of(self.opened().open_run(reader.named))

    def asked(self, method: str, part: str = "") -> list[Request]:
        """The requests so far that have this text in their path."""
        return [each for each in self.server.requests if each.method == method and part in each.path]


def run_of(reader: OpenpaiRunReader) -> Run:
    run = reader.run()
    assert isinstance(run, Run)
    return run


def once(reader: OpenpaiRunReader, state: str) -> Run:
    """The run, once all of its tasks are in a state."""

    def found() -> Run | None:
        run = run_of(reader)
        return run if {task.state for task in run.tasks} == {state} else None

    run = until(found)
    assert run is not None
    return run
