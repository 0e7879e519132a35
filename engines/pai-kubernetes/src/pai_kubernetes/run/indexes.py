"""The tasks that have ended, according to the Indexed Jobs of a run. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pai_kubernetes.api.fields import condition, label
from pai_kubernetes.labels import REPLICATED_JOB
from pai_kubernetes.run.roles import MOST_TASKS
from pai_network.fields import string

_POD: Final = re.compile(r" pod \S+-([0-9]{1,6})-[a-z0-9]{5} ", re.IGNORECASE)
"""The index of a pod in messages such as ``Container app for pod team-a/demo-worker-0-1-x7k2p failed …``."""


def ended_indexes(jobs: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], bool]:
    """Return for each task that has ended, by replicated job and index, whether it succeeded."""
    ended: dict[tuple[str, int], bool] = {}
    for job in jobs:
        name = label(job, REPLICATED_JOB)
        # A Job that failed by a rule for pods names the pod, and has it not among the indexes that failed.
        said = string(condition(job, "FailureTarget") or condition(job, "Failed"), "message")
        if found := _POD.search(said):
            ended[name, int(found[1])] = False
        for key, succeeded in (("failedIndexes", False), ("completedIndexes", True)):
            ended |= {(name, index): succeeded for index in expanded(string(job, "status", key))}
    return ended


def expanded(text: str) -> Iterator[int]:
    """Yield the numbers in a text such as ``0-2,5``; invalid parts are skipped."""
    left = MOST_TASKS
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if found:
            numbers = range(int(found[1]), int(found[2] or found[1]) + 1)[:left]
            left -= len(numbers)
            yield from numbers
