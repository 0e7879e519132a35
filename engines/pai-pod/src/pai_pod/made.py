"""What the init steps of a pod have made so far."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from pai_pod.errors import missing
from pai_pod.steps import Addresses, LoadedJob, PlannedTask, PlatformJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

_MAKERS: Final[dict[type, tuple[str, str]]] = {
    PlatformJob: ("the job of the platform", "frameworkParser"),
    LoadedJob: ("the job", "jobConfig"),
    Addresses: ("the addresses of the tasks", "peerBarrier"),
    PlannedTask: ("the plan of the task", "runtimePlugins"),
}
"""What each result is in messages, and the init plugin that makes it."""


class Made:
    """The results of the init steps; of several of one type, the last counts."""

    def __init__(self, *results: object) -> None:
        self._results = results

    def after(self, result: object) -> Made:
        """Return these results with that of one more step; None is no result."""
        return self if result is None else Made(result, *self._results)

    def of(self, kind: type[_T]) -> _T | None:
        """Return the result of this type; None if no step has made one."""
        return next((each for each in self._results if isinstance(each, kind)), None)

    @property
    def platform(self) -> PlatformJob | None:
        """What the platform knows of the job; None if no step has found a platform."""
        return next((each for each in self._results if isinstance(each, PlatformJob)), None)

    def arguments(self, run: Callable[..., object]) -> Iterator[Any]:
        """Yield what a step's function needs after the pod. Raises `InitFailed` if something is missing."""
        kinds = get_type_hints(run)
        kinds.pop("return", None)
        for kind in list(kinds.values())[1:]:
            is_optional = isinstance(kind, UnionType)
            wanted = kind.__args__[0] if is_optional else kind
            found = self.of(wanted)
            if found is None and not is_optional:
                raise missing(*_MAKERS.get(wanted, (wanted.__name__, "what makes it")))
            yield found
