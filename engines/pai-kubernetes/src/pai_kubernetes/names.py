"""Names of objects, derived from the names in a job: valid for Kubernetes, and unique.

The longest name is that of a task's pod, ``<run>-<role>-0-<index>-<5 characters>``: of a Job that JobSet
names ``<run>-<role>-0``, which names its pods by their completion index. All of it is a label of DNS
(RFC 1035), as the host's name is, and JobSet refuses what is not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import count
from typing import Final

LONGEST: Final = 63
"""Maximum characters of a DNS label, and of the value of a label."""
LONGEST_RUN: Final = 40
"""Maximum characters of the name of a run, which leaves some for the names of its roles."""

_LONGEST_MADE: Final = 32
"""Maximum characters of a generated name of a run."""
_OF_A_POD: Final = len("-") + len("-0-") + len("-12345")
_DIGEST: Final = 5
_LABEL: Final = re.compile("[a-z]([a-z0-9-]*[a-z0-9])?")
_LABEL_VALUE: Final = re.compile("([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def is_run_name(name: str) -> bool:
    """Return whether a run can have this name."""
    return len(name) <= LONGEST_RUN and _LABEL.fullmatch(name) is not None


def run_name(job_name: str, suffix: str) -> str:
    """Return the name of a run of a job; the suffix of lower-case letters and digits makes it unique."""
    return f"{_label(job_name, _LONGEST_MADE - len(suffix) - 1) or 'job'}-{suffix}"


def job_config_name(run: str) -> str:
    """Return the name of the ConfigMap with the job of a run."""
    return f"{run}-job"


def role_names(roles: Iterable[str], run: str, instances: Mapping[str, int]) -> dict[str, str]:
    """Return the name of the replicated job of each role in a run."""
    names: dict[str, str] = {}
    taken = set[str]()
    for role in roles:
        room = LONGEST - _OF_A_POD - len(run) - len(str(instances[role] - 1))
        names[role] = next(each for each in _role_names(role, room) if each not in taken)
        taken.add(names[role])
    return names


def _role_names(role: str, room: int) -> Iterator[str]:
    """Yield the possible names of a role, the most readable first."""
    plain = _label(role, len(role))
    if plain and len(plain) <= room:
        yield plain
    start = _label(role, room - _DIGEST - 1) or "r"
    for number in count():
        yield f"{start}-{_digest(f'{role} {number}')[:_DIGEST]}"


def label_value(text: str) -> str:
    """Return a label's value for any text: the text itself, if it is valid."""
    if len(text) <= LONGEST and _LABEL_VALUE.fullmatch(text):
        return text
    digest = _digest(text)[:8]
    start = re.sub("[^A-Za-z0-9_.-]+", "-", text).strip("-_.")[: LONGEST - len(digest) - 1]
    return f"{start}-{digest}" if start else digest


def _label(text: str, longest: int) -> str:
    """Return the part of a text that a DNS label can hold; empty if nothing is left."""
    allowed = re.sub("[^a-z0-9]+", "-", text.lower())
    return allowed.lstrip("-0123456789")[:longest].rstrip("-")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def code_user(namespace: str, run: str) -> str:
    """Return the name by which a run uses code on a storage that several namespaces may share."""
    return f"{namespace}.{run}"
