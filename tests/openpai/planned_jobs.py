"""Jobs as they are when they are about to be submitted to OpenPAI."""

from pathlib import Path
from typing import Any

from pai_document.document import parse_document
from pai_document.problems import Problems
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.environment import TaskName
from pai_runtime.plan.planning import JobFiles, job_plugins, plan_job
from pai_task.plan import Plan

_HOST = Host(NO_POLICY)


def planned(path: Path) -> tuple[Job, dict[TaskName, Plan]]:
    problems, definitions = Problems(), JobDefinitions(_HOST, path)
    files = JobFiles(path, open_definitions=definitions)
    planner = plan_job(files, _HOST, lambda job: example_placement(job, "alice"), problems)
    plans = planner.plans()
    problems.check()
    return planner.job, plans


def loaded(text: str) -> Job:
    problems = Problems()
    found = load_job(parse_document(text, "job.yaml"), None, job_plugins(_HOST), problems)
    problems.check()
    return found


def cmd(name: str, command: str, **more: Any) -> dict[str, Any]:
    callbacks = [{"event": "taskStarts", "commands": [command]}]
    return {"name": name, "type": "script", "plugin": "cmd", "callbacks": callbacks, **more}
