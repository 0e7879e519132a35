"""init: the whole init container of a job with four plugin uses, beside `python -I -c pass`.

All default init plugins run: the Framework comes from a server on this machine, which also says that the
image is there. The bundle is one file here; `bundle` has the time of a real one. The bash and Python init of
OpenPAI's first runtime takes 0.95 s, with five interpreters.
"""

import json
import tempfile
from pathlib import Path

from benchmarks.measure import (
    BARE_PYTHON,
    PROGRAM,
    callback,
    in_turn,
    job,
    milliseconds,
    process,
    table,
    times,
)
from tests.init_harness import PodFolder, api_server, framework, framework_variables

RUNS = 7
INIT, BARE = "init, four uses", "python -I -c pass"
MOST_TIMES = 20


def main() -> list[str]:
    uses = [
        {"name": f"use{number}", "type": "script", "callbacks": [callback("taskStarts", "echo")]}
        for number in range(4)
    ]
    with tempfile.TemporaryDirectory() as folder, api_server({}) as url:
        given = job(["true"], uses, [str(use["name"]) for use in uses])
        given["prerequisites"][0]["uri"] = f"{url.removeprefix('http://')}/image"
        pod = PodFolder(Path(folder), **framework_variables("worker"))
        with api_server(framework(given)) as address:
            environment = {**pod.environment, "KUBE_APISERVER_ADDRESS": address, "PATH": "/usr/bin:/bin"}
            measured = in_turn(
                RUNS, {INIT: process([PROGRAM, "init"], env=environment), BARE: process(BARE_PYTHON)}
            )
        plan = json.loads((pod.volume / "runtime.d" / "plan.json").read_text())
    bare = measured[BARE].cpu
    rows = [
        (
            name,
            milliseconds(timing.median),
            milliseconds(timing.cpu),
            times(timing.cpu / bare),
            times(MOST_TIMES) if name == INIT else "",
        )
        for name, timing in measured.items()
    ]
    table((f"{len(plan['uses'])} uses", "time", "CPU", f"CPU beside {BARE}", "target"), rows)
    ratio = measured[INIT].cpu / bare
    return [f"init takes {times(ratio)} of {BARE}"] if ratio > MOST_TIMES else []
