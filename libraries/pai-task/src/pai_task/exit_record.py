"""The exit record: how a task ended and why, as a small YAML file that is either complete or absent.

Kubernetes keeps 4096 bytes of it, with the markers around it. What does not fit is left out, the least needed
first: the tails of the logs, failures of callbacks, what rules found in the logs, then the ends of texts. The
names of the keys that OpenPAI's first runtime had are the same here.
"""

from __future__ import annotations

import time

from pai_task.exit_codes import RUNTIME_ERROR
from pai_task.fast_json import dumps, loads
from pai_task.layout import RECORD, RECORD_BYTES
from pai_task.likely_line import SEARCHED_LINES, likely_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from pai_task.analysis import Analysis
    from pai_task.folder import Folder
    from pai_task.outcome import CallbackFailure, Result
    from pai_task.plan import UseRecord

_START, _END = "[PAI_RUNTIME_ERROR_START]\n", "[PAI_RUNTIME_ERROR_END]\n"

MOST_BYTES = RECORD_BYTES - len(_START) - len(_END)

_MESSAGE_BYTES = 900
_EXCEPTION_BYTES = 300
_PHRASE_BYTES = 100
_REASON_BYTES = 500
_SOLUTION_BYTES = 700
_TRIGGER_BYTES = 200
_MATCH_BYTES = 2048
_GPU_BYTES = 200
_NOTES_BYTES = 500
_AT_BYTES = 200
_NAME_BYTES = 120
_GUESS_BYTES = 300
_LEAST_FOR_LOGS = 60

_MOST_READ = 16 * RECORD_BYTES

_CUT = "…"

_NOT_YAML = dict.fromkeys(
    (0, *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000), 0xFEFF, 0xFFFE, 0xFFFF), "\ufffd"
)
"""Characters that not every YAML reader accepts, even escaped."""


def exit_record(  # noqa: PLR0913 - by their names
    result: Result,
    failures: tuple[CallbackFailure, ...] = (),
    tails: tuple[str, str] = ("", ""),
    mask: Callable[[str], str] = str,
    lost: int = 0,
    *,
    usage: Mapping[str, Any] | None = None,
    preemption: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    at: str = "",
) -> str:
    """Return the exit record of a task as YAML, of at most `MOST_BYTES`.

    `exitCode` is the task's, `originUserExitCode` the command's (null: it did not run). `errorLogs` has the
    last lines of the user's and of the runtime's log, if the task did not end well. `lost` is the number of
    failed callbacks of which nothing more is known. `usage` is what the task has used, and what it requests,
    `preemption` what came of saving its work. `notes` are what people were told meanwhile, as far as it fits,
    `at` is where the command was when that was last said.
    """
    record: dict[str, Any] = {
        "exitCode": result.code,
        "outcome": result.outcome,
        "phase": result.phase,
        "originUserExitCode": result.user_code,
        "signal": result.signal,
        "decidedAt": _timestamp(result.decided_at),
        **({"usage": usage} if usage else {}),
        **({"preemption": preemption} if preemption else {}),
    }
    if result.message:
        record["message"] = _first(mask(result.message), _MESSAGE_BYTES)
    if result.code == RUNTIME_ERROR and result.user_code is None:
        record["caughtException"] = _first(mask(result.message), _EXCEPTION_BYTES)
    if result.failed:
        record["failedUse"] = _use(result.failed)
    if failures or lost:
        record["callbackFailureCount"] = len(failures) + lost
    if result.analysis:
        _add_analysis(record, result.analysis, mask)
    else:
        record |= _guess(result, tails[0])
    record |= _noted(notes, at)
    for failure in failures:
        entry = {"phase": failure.phase, "exitCode": failure.code, **_use(failure.use)}
        if failure.cut_short:
            entry["cutShort"] = failure.cut_short
        longer = {**record, "callbackFailures": [*record.get("callbackFailures", []), entry]}
        if _room(longer) < _LEAST_FOR_LOGS:
            break
        record = longer
    if result.outcome != "ok":
        record["errorLogs"] = _fit(record, tails)
    return _to_yaml(record).decode()


def _guess(result: Result, log: str) -> dict[str, str]:
    if result.outcome != "failed" or result.phase != "command":
        return {}
    lines = log.splitlines()[-SEARCHED_LINES:]
    likely = likely_line(lines)
    return {} if likely is None else {"guess": _first(lines[likely].strip(), _GUESS_BYTES)}


def _noted(notes: Sequence[str], at: str) -> dict[str, Any]:
    kept: list[str] = []
    left = _NOTES_BYTES
    for note in notes:
        text = _first(note, left)
        left -= _size(text) + len('"", ')
        if not text or left < 0:
            break
        kept.append(text)
    return {**({"notes": kept} if kept else {}), **({"at": _first(at, _AT_BYTES)} if at else {})}


def noted(record: Mapping[str, Any], note: str) -> str:
    """Return a record that was read, as YAML, with a note at the end of its message."""
    message = "; ".join(filter(None, [str(record.get("message", "")), note]))
    longer = {**record, "message": _last(message, _MESSAGE_BYTES)}
    if _room(longer) < 0:
        longer.pop("errorLogs", None)
    return _to_yaml(longer).decode()


def termination_message(record: str) -> str:
    """Return a record between the markers by which a platform finds it, of at most 4096 bytes."""
    return f"{_START}{record}{_END}"


def read_exit_record(folder: Folder) -> dict[str, Any]:
    """Read the exit record in the directory of a task; empty if it is missing or invalid."""
    try:
        return parse_exit_record(folder.read(RECORD, _MOST_READ).decode())
    except (OSError, ValueError):
        return {}


def read_termination_message(message: str) -> dict[str, Any]:
    """Read the exit record in a termination message; empty if it has none, or an invalid one.

    A kubelet keeps the first 12 KiB / n of it in a pod of n containers, and a cluster can add containers. Of
    a message that it has cut, the complete lines are the record.
    """
    _, start, rest = message[:_MOST_READ].rpartition(_START)
    record, end, _ = rest.partition(_END)
    whole = record if end else record[: record.rfind("\n") + 1]
    return parse_exit_record(whole) if start else {}


def parse_exit_record(text: str) -> dict[str, Any]:
    """Parse the output of `exit_record`; empty if it is invalid."""
    record: dict[str, Any] = {}
    try:
        for line in text.splitlines():
            key, colon, value = line.partition(": ")
            if not colon or key in record:
                return {}
            record[key] = loads(value)
    except (ValueError, RecursionError):
        return {}
    return record


def _add_analysis(record: dict[str, Any], analysis: Analysis, mask: Callable[[str], str]) -> None:
    record["phrase"] = _first(mask(analysis.phrase), _PHRASE_BYTES)
    record["reason"] = _first(mask(analysis.reason), _REASON_BYTES)
    left = _SOLUTION_BYTES
    record["solution"] = []
    for solution in analysis.solution:
        text = _first(mask(solution), left) if left > 0 else ""
        if text:
            record["solution"].append(text)
            left -= _size(text) + len('"", ')
    record["behavior"] = analysis.behavior
    record["becauseOfPeer"] = analysis.because_of_peer
    record["trigger"] = _first(mask(analysis.trigger), _TRIGGER_BYTES)
    gpu = {mask(name): value for name, value in analysis.gpu.items()}
    if gpu and len(_json(gpu).encode()) <= _GPU_BYTES:
        record["matchedGpuInfo"] = gpu
    for key, match in (
        ("matchedUserLogString", analysis.user_match),
        ("matchedPlatformLogString", analysis.platform_match),
    ):
        most = min(_MATCH_BYTES, _room({**record, key: ""}) - _LEAST_FOR_LOGS)
        if match and most > 0:
            record[key] = _first(mask(match), most)


def _fit(record: dict[str, Any], tails: tuple[str, str]) -> dict[str, str]:
    user, platform = tails
    left = _room({**record, "errorLogs": {"user": "", "platform": ""}})
    user = _last(user, max(left // 2, left - _size(platform)))
    return {"user": user, "platform": _last(platform, left - _size(user))}


def _room(record: dict[str, Any]) -> int:
    return MOST_BYTES - len(_to_yaml(record))


def _to_yaml(record: dict[str, Any]) -> bytes:
    """Format a record as YAML with JSON values, without a library."""
    return "".join(f"{key}: {_json(value)}\n" for key, value in record.items()).encode()


def _json(value: Any) -> str:
    return dumps(_readable(value), ensure_ascii=False)


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(_NOT_YAML)
    if isinstance(value, dict):
        return {_readable(name): _readable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_readable, value))
    return value


def _size(text: str) -> int:
    """Return the number of bytes that a text takes between its quotes."""
    return len(_json(text).encode()) - 2


def _timestamp(seconds: float) -> str:
    whole, part = divmod(round(seconds * 1000), 1000)
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{part:03}Z", time.gmtime(whole))


def _first(text: str, most: int) -> str:
    if most < _size(_CUT):
        return ""
    while _size(text) > most:
        text = text[: len(text) - (_size(text) - most) // 6 - 2] + _CUT
    return text


def _last(text: str, most: int) -> str:
    while text and _size(text) > most:
        text = text[(_size(text) - most) // 6 + 1 :]
    return text


def _use(use: UseRecord) -> dict[str, str]:
    return {
        "use": _first(use.name, _NAME_BYTES),
        "plugin": _first(use.plugin, _NAME_BYTES),
        "distribution": _first(f"{use.distribution} {use.version}", _NAME_BYTES),
        "source": _last(use.source, _NAME_BYTES),
    }
