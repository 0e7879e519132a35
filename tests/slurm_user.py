"""What a user of the profile ``lab`` does on the command line, in the directory with its ``runs``."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support import cli, content, until, write_job

ON = ("--on", "lab")


def role(*commands: str, cpu: int = 1, gpu: int = 0, **more: Any) -> dict[str, Any]:
    resources = {"cpu": cpu, "memoryMB": 200, "gpu": gpu}
    own = {"dockerImage": "image", "resourcePerInstance": resources, "commands": list(commands)}
    return {"instances": 1, **own, **more}


def run(here: Path, document: dict[str, Any], *more: str) -> "subprocess.CompletedProcess[str]":
    return cli("run", write_job(here, document), *ON, *more)


def detached(here: Path, document: dict[str, Any], *more: str) -> str:
    """The name of a run whose first task, ``worker/0``, has written ``up``."""
    submitted = run(here, document, "--detach", *more)
    name = submitted.stdout.strip()
    assert name, submitted.stderr
    until(lambda: b"up\n" in content(log(here, name)))
    return name


def log(here: Path, name: str, task: str = "worker/0") -> Path:
    return here / "runs" / name / name / task / "logs/user-all/current"


def listed(name: str) -> dict[str, Any]:
    """The run as ``ps`` shows it."""
    found: dict[str, Any] = json.loads(cli("ps", name, *ON, "--json").stdout)
    return found


def state(name: str) -> str:
    return str(listed(name)["state"])
