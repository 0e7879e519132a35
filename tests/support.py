"""What tests of several packages use."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

JOBS = Path(__file__).parent / "jobs"
PROGRAM = Path(sys.executable).with_name("pai-runtime")


def cli(
    *args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The real command, in a process of its own; `env` is added to this process's environment."""
    return subprocess.run(
        [PROGRAM, *map(str, args)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def job(**fields: Any) -> dict[str, Any]:
    """A small valid job with one role ``worker``, which runs ``true``; `fields` replace its own.

    ``worker`` among the fields is merged into that role.
    """
    worker = {
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
        "commands": ["true"],
        **fields.pop("worker", {}),
    }
    image = {"name": "image", "type": "dockerimage", "uri": "example/image"}
    prerequisites = [image, *fields.pop("prerequisites", [])]
    return {
        "protocolVersion": 2,
        "name": "test",
        "type": "job",
        "prerequisites": prerequisites,
        "taskRoles": {"worker": worker},
        **fields,
    }


def callback(event: str, *commands: str, **more: Any) -> dict[str, Any]:
    """One callback of the cmd plugin."""
    return {"event": event, "commands": list(commands), **more}


def write_job(folder: Path, document: Mapping[str, Any] | str, name: str = "job.yaml") -> Path:
    """A job file with this content."""
    path = folder / name
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path
