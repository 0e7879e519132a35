"""Which tasks have ended, as the Indexed Jobs of a run say. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pai_kubernetes.api.fields import condition, label, string
from pai_kubernetes.labels import REPLICATED_JOB
from pai_kubernetes.run.roles import MOST_TASKS

_POD: Final = re.compile(r" pod \S+-([0-9]{1,6})-[a-z0-9]{5} ", re.IGNORECASE)
"""As in ``Container app for pod team-a/demo-worker-0-1-x7k2p failed with exit code 3 matching …``."""


def ended_indexes(jobs: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], bool]:
    """Whether each task that has ended has succeeded, by its replicated job and index."""
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
    """The numbers in a text such as ``0-2,5``; of what is not like that, none."""
    left = MOST_TASKS
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if found:
            numbers = range(int(found[1]), int(found[2] or found[1]) + 1)[:left]
            left -= len(numbers)
            yield from numbers
