"""rendering: a job of 2,000 tasks as objects of Kubernetes, once it is loaded and planned.

Target: 1 s of CPU time for all of it, loading and planning included. Beside it, the objects as JSON.
"""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.measure import Sample, Thing, callback, in_turn, job, milliseconds, table, times, write_job
from pai_document.problems import Problems
from pai_kubernetes.manifests.objects import RenderedRun, render
from pai_kubernetes.manifests.peers import run_peers, run_roles
from pai_kubernetes.manifests.policies import policies
from pai_kubernetes.profile import KubernetesProfile
from pai_pod.placement import peers_placement
from pai_runtime.engines.interface import RunRequest
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.model import Job
from pai_runtime.plan.build import Planner
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_task.plan import Plan

RUNS = 5
TASKS = 2000
MOST_SECONDS = 1.0
RUN = "benchmark-bcdfg"
PROFILE = KubernetesProfile("lab", "registry.example.com/runtime:1")


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        before = {"name": "before", "type": "script", "callbacks": [callback("taskStarts", "true")]}
        document = job(["true"], uses=["before"], prerequisites=[before])
        document["taskRoles"]["worker"]["instances"] = TASKS
        path = write_job(Path(folder) / "job.yaml", document)
        planner = _planner(path)
        plans = planner.plans()
        objects = _render(planner, plans).objects
        measured = in_turn(
            RUNS,
            {
                "load, plan and render": _timed(lambda: _loaded_and_rendered(path)),
                "render": _timed(lambda: _render(planner, plans)),
                "json.dumps of the objects": _timed(lambda: json.dumps(objects)),
            },
        )
    whole, _, reference = measured.values()
    table(
        ("", "time", "CPU", "beside JSON", "target"),
        [
            (
                name,
                milliseconds(timing.median),
                milliseconds(timing.cpu),
                times(timing.cpu / reference.cpu),
                milliseconds(MOST_SECONDS) if timing is whole else "",
            )
            for name, timing in measured.items()
        ],
    )
    late = whole.cpu > MOST_SECONDS
    return [f"rendering {TASKS} tasks takes {milliseconds(whole.cpu)}"] if late else []


def _planner(path: Path) -> Planner:
    def place(job: Job) -> Placement:
        return peers_placement(job, run_peers(job, RUN, run_roles(job, RUN), "alice"), {}, "/usr/local/pai")

    return plan_job(JobFiles(path), Host(NO_POLICY), place, Problems())


def _loaded_and_rendered(path: Path) -> RenderedRun:
    planner = _planner(path)
    return _render(planner, planner.plans())


def _render(planner: Planner, plans: Mapping[TaskName, Plan]) -> RenderedRun:
    return render(
        planner.job,
        plans,
        RunRequest("alice"),
        PROFILE,
        name=RUN,
        policies=policies(planner.job, run_roles(planner.job, RUN), {}, Problems()),
        run_secret="0" * 64,
        secrets={},
        code=None,
    )


def _timed(do: Callable[[], object]) -> Thing:
    def run() -> Sample:
        clock, cpu = time.perf_counter(), time.process_time()
        do()
        return Sample(time.perf_counter() - clock, time.process_time() - cpu)

    return run
