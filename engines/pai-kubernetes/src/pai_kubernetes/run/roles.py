"""The task roles of a run, from the annotation of its JobSet, which is untrusted."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pai_kubernetes.api.fields import annotation
from pai_kubernetes.labels import ROLES

_ROLE, _REPLICATED_JOB = "[A-Za-z_][A-Za-z0-9_]*", "[a-z0-9-]+"
MOST_TASKS = 100_000
"""The maximum number of completions of an Indexed Job."""


@dataclass(frozen=True)
class Role:
    """A task role: its name as written, that of its replicated job, and its number of tasks."""

    name: str
    job: str
    instances: int


def read_roles(jobset: Mapping[str, Any]) -> tuple[Role, ...]:
    """Return the roles of a run, in the order of the job. Raises `ValueError`."""
    try:
        document = json.loads(annotation(jobset, ROLES))
        roles = tuple(
            Role(_matching(_ROLE, name), _matching(_REPLICATED_JOB, each["name"]), _count(each))
            for name, each in document.items()
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"its annotation {ROLES} does not name task roles") from None
    if not 0 < sum(role.instances for role in roles) <= MOST_TASKS:
        raise ValueError(f"its annotation {ROLES} names no tasks, or more than {MOST_TASKS}")
    return roles


def _matching(pattern: str, text: Any) -> str:
    if not isinstance(text, str) or not re.fullmatch(pattern, text):
        raise ValueError
    return text


def _count(document: Mapping[str, Any]) -> int:
    count = document["instances"]
    if type(count) is not int or count < 1:
        raise ValueError
    return count
