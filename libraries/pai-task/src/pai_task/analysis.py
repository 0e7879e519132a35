"""The analysis of a failure: why a task failed, as a plugin found it."""

from __future__ import annotations

# Not from `collections.abc`: a hook's process has this one loaded.
from _collections_abc import Mapping

from pai_task.exit_codes import MOST_CODE
from pai_task.record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pai_task.vocabulary import Behavior

BEHAVIORS = ("TRANSIENT", "PERMANENT", "UNKNOWN")


@record(frozen=True)
class Analysis:
    """Why a task failed, as found by a plugin.

    `code` (1 to 255) becomes the task's exit code. `phrase` names the failure in one word; `reason` and
    `solution` are for people. `behavior` says whether a retry may help. `trigger` says which rule matched,
    and what it matched; `user_match` and `platform_match` are the matched texts in the user's log and in
    ``runtime.log``, `gpu` the findings about the GPUs by name: true, false, whole numbers or lists of these.
    `because_of_peer` means that the task failed because another task of the job failed. As JSON, it has at
    most 64 KB.
    """

    code: int
    phrase: str
    reason: str
    solution: tuple[str, ...] = ()
    behavior: Behavior = "UNKNOWN"
    trigger: str = ""
    because_of_peer: bool = False
    user_match: str = ""
    platform_match: str = ""
    gpu: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object, for `from_json`."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, document: Any) -> Analysis:
        """Parse the output of `to_json`. Raises `ValueError` if it is invalid."""
        try:
            analysis = cls(**{**document, "solution": tuple(document["solution"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an analysis: {error!r}") from None
        if fault := analysis.fault():
            raise ValueError(fault)
        return analysis

    def fault(self) -> str | None:
        """Return why the analysis is invalid, whatever the types of its values; None if it is valid."""
        code: Any = self.code
        solution: Any = self.solution
        because_of_peer: Any = self.because_of_peer
        if type(code) is not int or not 1 <= code <= MOST_CODE:
            return f"has the code {code!r}, not one of 1 to {MOST_CODE}"
        if not isinstance(solution, tuple):
            return f"has a solution that is a {type(solution).__name__}, not a tuple"
        texts = (
            self.phrase,
            self.reason,
            *solution,
            self.trigger,
            self.user_match,
            self.platform_match,
        )
        if not all(isinstance(text, str) for text in texts):
            return "has a value that is not a string"
        if self.behavior not in BEHAVIORS:
            return f"has the behavior {self.behavior!r}; expected one of {', '.join(BEHAVIORS)}"
        if not isinstance(because_of_peer, bool):
            return f"has a because_of_peer that is a {type(because_of_peer).__name__}, not a bool"
        return _gpu_fault(self.gpu)


def _gpu_fault(gpu: Any) -> str | None:
    if not isinstance(gpu, Mapping):
        return f"has a gpu that is a {type(gpu).__name__}, not a mapping"
    if not all(isinstance(name, str) and name.isascii() and name.isidentifier() for name in gpu):
        return "has a gpu with a key that is no name such as nvidiaXid"
    # Not text, which would have to be masked, and no number that YAML does not have.
    if not all(isinstance(each, int) for value in gpu.values() for each in _each(value)):
        return "has a gpu whose values are not true, false, whole numbers or lists of these"
    return None


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]
