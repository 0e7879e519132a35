"""framework: from FrameworkController's object to the variables in the plan of one of its tasks.

Beside `json.loads` of the same bytes, before FrameworkController compressed them. Targets: linear growth (at
most 6 x for four times as many), and for 10,000 tasks the time and memory below.
"""

import json
import sys
from pathlib import Path

from benchmarks.measure import (
    Timing,
    filled_folder,
    in_turn,
    job,
    megabytes,
    milliseconds,
    process,
    table,
    times,
    write_job,
)
from tests.framework_object import Pod, framework_object, hashed, role_status, task_role

SIZES = (1, 2500, 10_000)
RUNS = 7
MOST_GROWTH = 6
MOST_SECONDS = 1.0
MOST_MEMORY = 70_000_000

TELL = """
import sys
from pathlib import Path
from pai_document.document import parse_document
from pai_document.problems import Problems
from pai_runtime.job.build import build_job
from pai_runtime.job.plugins import JobPlugins
from pai_runtime.plan.environment import JobEnvironment
from pai_openpai.framework import read_framework
from pai_openpai.placement import framework_placement

framework = read_framework(Path(sys.argv[1]).read_bytes())
none = JobPlugins(lambda _: None, lambda _: {}, str, str, lambda _: None, lambda root, _: root)
job = build_job(parse_document(framework.job_file, "job.yaml"), {}, none, Problems())
pod = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0"}
environment = JobEnvironment(job, framework_placement(framework, job, pod, "/usr/local/pai/runtime.d"))
assert environment.own(job.roles["worker"], 0) and environment.shared.peers
"""
COMPRESSED, PLAIN = "-compressed.json", "-plain.json"
LOAD = "import json, sys; json.loads(open(sys.argv[1], 'rb').read())"


def main() -> list[str]:
    with filled_folder(_write_all) as folder:
        things = {}
        for tasks in SIZES:
            for code, kind in ((TELL, COMPRESSED), (LOAD, PLAIN)):
                argv = [sys.executable, "-I", "-c", code, str(folder / f"{tasks}{kind}")]
                things[f"{code}{tasks}"] = process(argv)
        measured = in_turn(RUNS, things)
    missed, rows = [], []
    least = measured[f"{TELL}{SIZES[0]}"].cpu
    before: Timing | None = None
    for tasks in SIZES:
        told, loaded = measured[f"{TELL}{tasks}"], measured[f"{LOAD}{tasks}"]
        growth = (told.cpu - least) / (before.cpu - least) if before and before.cpu > least else None
        rows.append((f"{tasks} tasks", *_cells(told), times(growth) if growth else "", *_cells(loaded)))
        if growth and growth > MOST_GROWTH:
            missed.append(f"the variables of a Framework grow {times(growth)} up to {tasks} tasks")
        before = told
    titles = ("", "time", "CPU", "memory", "growth", "json.loads", "CPU", "memory")
    table(titles, rows)
    print(f"\n  targets for {SIZES[-1]} tasks: {milliseconds(MOST_SECONDS)} of CPU, {megabytes(MOST_MEMORY)}")
    last = measured[f"{TELL}{SIZES[-1]}"]
    if last.cpu > MOST_SECONDS or last.memory > MOST_MEMORY:
        missed.append(f"a Framework of {SIZES[-1]} takes {milliseconds(last.cpu)}, {megabytes(last.memory)}")
    return missed


def _cells(timing: Timing) -> tuple[str, str, str]:
    return milliseconds(timing.median), milliseconds(timing.cpu), megabytes(timing.memory)


def _write_all(folder: Path) -> None:
    for tasks in SIZES:
        document = job(["true"])
        document["taskRoles"]["worker"]["instances"] = tasks
        config = write_job(folder / "job.yaml", document).read_text()
        pods = [
            Pod(f"2320bc0d-db98-4969-965f-{index:012x}", f"10.0.{index >> 8}.{index & 255}")
            for index in range(tasks)
        ]
        roles, statuses = [task_role("worker", tasks, hashed())], [role_status("worker", pods)]
        for kind in (COMPRESSED, PLAIN):
            whole = framework_object(roles, statuses, config=config, compressed=kind == COMPRESSED)
            (folder / f"{tasks}{kind}").write_text(json.dumps(whole))
