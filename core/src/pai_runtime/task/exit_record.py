"""The exit record: how a task ended, as a small YAML file that is complete or not there.

Kubernetes keeps 4096 bytes of it. What does not fit is left out, the least needed first: the tails of the
logs, failures of callbacks, then the end of the message.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pai_runtime.task.lifecycle import CallbackFailure, Result
from pai_runtime.task.plan import UseRecord

MOST_BYTES = 4096
_MESSAGE_BYTES = 1200
_FAILURES_UNTIL = 2600
_NAME_BYTES = 120

_NOT_YAML = re.compile("[\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def exit_record(
    result: Result,
    failures: tuple[CallbackFailure, ...] = (),
    tails: tuple[str, str] = ("", ""),
    mask: Callable[[str], str] = str,
) -> str:
    """The record as YAML.

    `exitCode` is the task's, `userExitCode` the command's (null: it did not run). `errorLogs` has the last
    lines of the user's and of the runtime's log, if the task did not end well.
    """
    record: dict[str, Any] = {
        "exitCode": result.code,
        "outcome": result.outcome,
        "phase": result.phase,
        "userExitCode": result.user_code,
        "signal": result.signal,
    }
    if result.message:
        record["message"] = _first(mask(result.message), _MESSAGE_BYTES)
    if result.failed:
        record["failedUse"] = _use(result.failed)
    for failure in failures:
        entry = {"phase": failure.phase, "exitCode": failure.code, **_use(failure.use)}
        longer = {**record, "callbackFailures": [*record.get("callbackFailures", []), entry]}
        if len(_to_yaml(longer)) > _FAILURES_UNTIL:
            break
        record = longer
    if result.outcome != "ok":
        record["errorLogs"] = _fit(record, tails)
    return _to_yaml(record).decode()


def write_whole(path: Path, text: str, mode: int = 0o644, *, sync: bool = True) -> None:
    """Write a file so that a crash leaves the old one or the new one, and never half of one.

    Without `sync` that holds for a crash of ours and not for one of the machine, and costs no time.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def _fit(record: dict[str, Any], tails: tuple[str, str]) -> dict[str, str]:
    user, platform = tails
    left = MOST_BYTES - len(_to_yaml({**record, "errorLogs": {"user": "", "platform": ""}}))
    user = _last(user, max(left // 2, left - _size(platform)))
    return {"user": user, "platform": _last(platform, left - _size(user))}


def _to_yaml(record: dict[str, Any]) -> bytes:
    """YAML with every value in its JSON form, which is YAML too; needs no library."""
    return "".join(f"{key}: {_json(value)}\n" for key, value in record.items()).encode()


def _json(value: Any) -> str:
    return _NOT_YAML.sub("\ufffd", json.dumps(value, ensure_ascii=False))


def _size(text: str) -> int:
    """How many bytes a text takes between its quotes."""
    return len(_json(text).encode()) - 2


def _first(text: str, most: int) -> str:
    while _size(text) > most:
        text = text[: len(text) - (_size(text) - most) // 6 - 2] + "…"
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
    }
