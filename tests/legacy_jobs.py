"""Jobs of version 1 for tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ABSENT: Final[Any] = object()
"""In the place of a value: the job is without the field."""


def role(**fields: Any) -> dict[str, Any]:
    """A small valid task role; `fields` replace its own."""
    usual = {
        "name": "worker",
        "taskNumber": 1,
        "cpuNumber": 1,
        "memoryMB": 100,
        "gpuNumber": 0,
        "command": "true",
    }
    return _with(usual, fields)


def legacy_job(*roles: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A small valid job with these task roles, or one; `fields` replace its own."""
    return _with({"jobName": "old", "image": "ubuntu", "taskRoles": list(roles or [role()])}, fields)


def port(label: str = "web", begin_at: int = 0, number: int = 1) -> dict[str, Any]:
    return {"label": label, "beginAt": begin_at, "portNumber": number}


def written(folder: Path, document: Mapping[str, Any]) -> Path:
    """The job in a file."""
    path = folder / "old.json"
    path.write_text(json.dumps(document, indent=2), "utf-8")
    return path


def _with(usual: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**usual, **fields}.items() if value is not ABSENT}
