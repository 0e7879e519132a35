"""init: the whole init container of a job with four plugin uses, beside `python -I -c pass`.

All default init plugins run: the Framework comes from a server on this machine, which also says that the
image is there. The bundle is one file here; `bundle` has the time of a real one. The bash and Python init of
OpenPAI's first runtime takes 0.95 s, with five interpreters.
"""

import json
import tempfile
from pathlib import Path

from benchmarks.measure import (
    BARE,
    BARE_PYTHON,
    PROGRAM,
    beside_bare_python,
    callback,
    in_turn,
    job,
    process,
)
from tests.init_harness import PodFolder, api_server, framework, framework_variables

RUNS = 7
INIT = "init, four uses"
MOST_TIMES = 20


def main() -> list[str]:
    names = [f"use{number}" for number in range(4)]
    echo = [callback("taskStarts", "echo")]
    uses = [{"name": name, "type": "script", "callbacks": echo} for name in names]
    with tempfile.TemporaryDirectory() as folder, api_server({}) as url:
        given = job(["true"], uses, names)
        given["prerequisites"][0]["uri"] = f"{url.removeprefix('http://')}/image"
        pod = PodFolder(Path(folder), **framework_variables("worker"))
        with api_server(framework(given)) as address:
            environment = {**pod.environment, "KUBE_APISERVER_ADDRESS": address, "PATH": "/usr/bin:/bin"}
            measured = in_turn(
                RUNS, {INIT: process([PROGRAM, "init"], env=environment), BARE: process(BARE_PYTHON)}
            )
        plan = json.loads((pod.volume / "runtime.d" / "plan.json").read_text())
    return beside_bare_python(f"{len(plan['uses'])} uses", measured, INIT, MOST_TIMES)
