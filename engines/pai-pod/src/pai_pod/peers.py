"""The peers of a pod: the host names of the tasks of its run, as the engine chose them.

``peers.json`` in the configuration of an init container holds it, where no FrameworkController has made the
pod.
"""

from __future__ import annotations

from pai_task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

FILE: Final = "peers.json"
VERSION: Final = 1

_INDEX = "{index}"
_MOST_SECONDS = 24 * 3600
_LONGEST_NAME = 253
"""Maximum length of a name in DNS (RFC 1035, 2.3.4), as text."""


@record(frozen=True)
class Peers:
    """The tasks of a run; `framework` is the name of the run, `user` its owner.

    With `gang`, a task starts only when all others are resolvable, for which it waits up to
    `barrier_seconds`. `hosts` has for each task role, as written in the job, the name of its tasks' hosts
    with ``{index}`` in it. `job_file` is the user's name of the job file, for messages.
    """

    framework: str
    user: str
    gang: bool
    barrier_seconds: float
    hosts: Mapping[str, str]
    job_file: str = ""

    def host(self, role: str, index: int) -> str:
        """Return the host name of a task."""
        return self.hosts[role].replace(_INDEX, str(index))

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``peers.json``."""
        return {
            "peersVersion": VERSION,
            "framework": self.framework,
            "user": self.user,
            "gang": self.gang,
            "barrierSeconds": self.barrier_seconds,
            "hosts": dict(self.hosts),
            "jobFile": self.job_file,
        }

    @classmethod
    def from_json(cls, document: Any) -> Peers:
        """Parse the output of `to_json`. Raises `ValueError` if it is invalid."""
        version = document.get("peersVersion") if isinstance(document, dict) else None
        if version != VERSION:
            raise ValueError(f"peersVersion: expected {VERSION}, found {version!r}")
        for key, (is_right, expected) in _FIELDS.items():
            if not is_right(document.get(key, "" if key == "jobFile" else None)):
                raise ValueError(f"{key}: expected {expected}")
        return cls(
            document["framework"],
            document["user"],
            document["gang"],
            document["barrierSeconds"],
            document["hosts"],
            document.get("jobFile", ""),
        )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _MOST_SECONDS


def _are_hosts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value)) and all(map(_is_host, value.values()))


def _is_host(value: Any) -> bool:
    return _is_text(value) and 0 < len(value) <= _LONGEST_NAME and " " not in value


_FIELDS = {
    "framework": (_is_text, "a text"),
    "user": (_is_text, "a text"),
    "gang": (lambda value: isinstance(value, bool), "true or false"),
    "barrierSeconds": (_is_seconds, f"seconds, at most {_MOST_SECONDS}"),
    "hosts": (_are_hosts, "the name of a host by the name of each task role, with {index} in it"),
    "jobFile": (_is_text, "a text, or none"),
}
