"""following: a run of 2,000 tasks on a cluster, from its first pod until all have ended, without their logs.

Beside it, what nobody gets around: a process that parses each object that the cluster sends. Targets: 8 x the
CPU time of that, and 15 requests, a page for each 500 tasks among them. Pods change as fast as the stand-in
for the cluster can tell; in a run that takes longer, looking at it takes about a tenth of a processor.
"""

import json
import sys
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    Sample,
    filled_folder,
    in_turn,
    megabytes,
    milliseconds,
    process,
    table,
    times,
)

RUNS = 3
TASKS = 2000
MOST_TIMES = 8
MOST_REQUESTS = 15
FOLLOW = """
import sys
from pai_kubernetes.api.access import Access
from pai_kubernetes.api.client import Api
from pai_kubernetes.run.reader import Reader
from pai_runtime.terminal.following import follow
from pai_runtime.terminal.view import PlainView
reader = Reader(Api(Access(sys.argv[1], "jane", "a kubeconfig", "team-a"), "", "lab"), sys.argv[2], "lab")
run, status = follow(reader, PlainView(reader))
sys.exit(status or any(task.state != "succeeded" for task in run.tasks))
"""
PARSE = """
import json, sys
with open(sys.argv[1], "rb") as file:
    for line in file:
        json.loads(line)
"""


def main() -> list[str]:
    requests: list[int] = []
    with filled_folder(_write_objects) as folder:
        objects = folder / "objects"
        ours, floor = in_turn(
            RUNS,
            {
                "follow": lambda: _followed(requests),
                "parse": process([sys.executable, "-I", "-c", PARSE, str(objects)]),
            },
        ).values()
        size = objects.stat().st_size
    ratio = ours.cpu / floor.cpu
    rows = [
        (
            f"follow {TASKS} tasks",
            ours,
            times(ratio),
            times(MOST_TIMES),
            str(max(requests)),
            str(MOST_REQUESTS),
        ),
        (f"json.loads of {megabytes(size)}", floor, "", "", "", ""),
    ]
    table(
        ("", "CPU", "memory", "beside json.loads", "target", "requests", "target"),
        [(name, milliseconds(each.cpu), megabytes(each.memory), *more) for name, each, *more in rows],
    )
    missed = [f"following {TASKS} tasks takes {times(ratio)} of json.loads"] if ratio > MOST_TIMES else []
    return [*missed, *([f"{max(requests)} requests"] if max(requests) > MOST_REQUESTS else [])]


def _followed(requests: list[int]) -> Sample:
    """One run; the cluster is played in a process of its own."""
    from tests.kubernetes.run_objects import NAME  # noqa: PLC0415 - what measures keeps small

    ours, its = get_context("fork").Pipe()
    cluster = get_context("fork").Process(target=_play, args=(its,), daemon=True)
    cluster.start()
    sample = process([sys.executable, "-I", "-c", FOLLOW, ours.recv(), NAME])()
    ours.send("over")
    requests.append(ours.recv())
    cluster.join()
    return sample


def _play(pipe: Connection) -> None:
    """Pods are made, run and end as fast as they can; at last, how many requests came."""
    from pai_kubernetes.api import paths  # noqa: PLC0415 - what measures keeps small
    from tests.kubernetes.api_server import ApiServer  # noqa: PLC0415
    from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster  # noqa: PLC0415

    pods = list(_pods())
    with ApiServer() as server:
        cluster = PlayedCluster(server, {"worker": TASKS})
        pipe.send(server.url)
        server.wait_for(lambda: server.counts["watch", "/api/v1/pods"] == 1)
        for pod in pods:
            server.put(paths.pods(NAMESPACE), pod)
        cluster.end("Completed")
        pipe.recv()
        pipe.send(len(server.requests))


def _pods() -> Iterator[dict[str, Any]]:
    """All pods as they wait, as they run and as they have ended, as large as pods are."""
    from tests.kubernetes.run_objects import pod, running, terminated  # noqa: PLC0415

    fields: dict[str, Any] = {f"f:field{number}": {"f:name": {}, "f:value": {}} for number in range(60)}
    variables = [{"name": f"VARIABLE_{number}", "value": "value " * 8} for number in range(20)]
    for status in ({"phase": "Pending"}, running(), terminated(0)):
        for index in range(TASKS):
            document = pod(index=index, status=status)
            document["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": fields}]
            document["spec"]["containers"][0]["env"] = variables
            yield document


def _write_objects(folder: Path) -> None:
    """What comes by the watch, and once more what is listed at the end."""
    pods = list(_pods())
    with (folder / "objects").open("w") as file:
        for each in (*pods, *pods[-TASKS:]):
            file.write(json.dumps({"type": "MODIFIED", "object": each}) + "\n")
