"""The exit spec that operators edit, ``k8s-job-exit-spec.yaml``, converted to the form that a runtime reads.

It describes all exit codes of a cluster, those of the platform's controller too, which are below 1, and
patterns that only the controller can match. The platform renders from it what is left for the runtime.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pai_failure_analysis.rules import Fault

ENTRIES = "spec"
"""The name of the field with the entries."""

_RUNTIME, _CONTROLLER = "runtimeContainerPatterns", "controllerPodPatterns"


@dataclass(frozen=True)
class OperatorsSpec:
    """The `entries` in the form of `rules.read_rules`, in their order in the file.

    `faults` are about parts of entries for the runtime that it has to ignore. `for_controller` has the
    phrases of the entries that are for the controller only.
    """

    entries: Any
    faults: Sequence[Fault] = ()
    for_controller: Sequence[str] = ()


def read_operators_spec(given: Any, source: str) -> OperatorsSpec:
    """Convert the content of the field `ENTRIES`; what is not an entry is kept, to be reported later."""
    if not isinstance(given, list):
        return OperatorsSpec(given)
    entries, faults, for_controller = [], [], []
    for number, entry in enumerate(given, 1):
        if not isinstance(entry, Mapping) or "patterns" in entry:
            entries.append(entry)
            continue
        pattern = entry.get("pattern") or {}
        has = pattern if isinstance(pattern, Mapping) else {}
        is_controllers = isinstance(code := entry.get("code"), int) and code < 1
        entries.append(_entry(entry, None if is_controllers else has.get(_RUNTIME)))
        phrase = str(entry.get("phrase", code))
        if not has.get(_RUNTIME) and (is_controllers or has.get(_CONTROLLER)):
            for_controller.append(phrase)
        faults += [
            Fault(source, number, phrase, ("pattern", *path), message)
            for path, message in _faults(pattern, is_controllers=is_controllers)
        ]
    return OperatorsSpec(entries, faults, for_controller)


def as_written(fault: Fault) -> Fault:
    """Return a fault of a converted entry with its path in the file."""
    match fault.path:
        case ("patterns", *rest):
            return fault._replace(path=("pattern", _RUNTIME, *rest))
        case ("containerExitCode",):
            return fault._replace(path=("code",))
    return fault


def _entry(entry: Mapping[str, Any], patterns: Any) -> Mapping[str, Any]:
    converted = {name: value for name, value in entry.items() if name != "pattern"}
    if entry.get("behavior") == "TRANSIENT_CONFLICT":  # to the scheduler, more than TRANSIENT; not to us
        converted["behavior"] = "TRANSIENT"
    return {**converted, "patterns": patterns} if patterns else converted


def _faults(pattern: Any, *, is_controllers: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(pattern, Mapping):
        yield (), f"expected a mapping with {_RUNTIME}; it is ignored"
        return
    for name in pattern:
        if name not in (_RUNTIME, _CONTROLLER):
            yield (), f"unknown field {name!r}; known: {_RUNTIME}, {_CONTROLLER}; it is ignored"
    if pattern.get(_RUNTIME):
        if is_controllers:
            yield (_RUNTIME,), "no task ends with an exit code below 1; the entry is ignored"
        elif pattern.get(_CONTROLLER):
            yield (_CONTROLLER,), "only the platform's controller knows the pod; they are ignored"
