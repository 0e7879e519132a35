"""The exit record: how a task ended, as a small YAML file that is complete or not there."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pai_runtime.task.lifecycle import CallbackFailure, Result
from pai_runtime.task.plan import UseRecord

MESSAGE_BYTES = 2048
"""A longer message is cut, so that a record fits the 4096 bytes that Kubernetes keeps."""


def exit_record(
    result: Result, failures: tuple[CallbackFailure, ...] = (), mask: Callable[[str], str] = str
) -> dict[str, Any]:
    """The record as data. `exitCode` is the task's, `userExitCode` the command's (null: it did not run)."""
    record: dict[str, Any] = {
        "exitCode": result.code,
        "outcome": result.outcome,
        "phase": result.phase,
        "userExitCode": result.user_code,
        "signal": result.signal,
    }
    if result.message:
        record["message"] = _cut(mask(result.message), MESSAGE_BYTES)
    if result.failed:
        record["failedUse"] = _use(result.failed)
    if failures:
        record["callbackFailures"] = [
            {"phase": failure.phase, "exitCode": failure.code, **_use(failure.use)}
            for failure in failures[:4]
        ]
    return record


def to_yaml(record: dict[str, Any]) -> str:
    """YAML with every scalar in its JSON form, which is YAML too; needs no library."""
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in record.items())


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a crash leaves the old one or the new one, and never half of one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _use(use: UseRecord) -> dict[str, str]:
    return {
        "use": _cut(use.name, 128),
        "plugin": _cut(use.plugin, 128),
        "distribution": _cut(f"{use.distribution} {use.version}", 128),
    }


def _cut(text: str, most: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return text if len(data) <= most else data[:most].decode("utf-8", "ignore") + "…"
