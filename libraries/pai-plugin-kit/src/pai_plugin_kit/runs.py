"""Jobs that really run with a plugin, and what is left of them."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pai_task.interpreter import python_argv
from pai_task.layout import RECORD, RUNTIME_LOG, USER_LOG, VARIABLES
from pai_task.record import record

_LONGEST_RUN = 300
"""Timeout in seconds of a job, which a test does not let run longer."""


@record(frozen=True)
class TaskRun:
    """A task that has run, by its directory."""

    folder: Path

    @property
    def output(self) -> str:
        """The output of its command."""
        return (self.folder / USER_LOG).read_text("utf-8")

    @property
    def runtime_log(self) -> str:
        """What steps, hooks and services printed, and what the runtime said."""
        return (self.folder / RUNTIME_LOG).read_text("utf-8")

    @property
    def exit_record(self) -> Mapping[str, Any]:
        """How it ended, and why."""
        content: Mapping[str, Any] = yaml.safe_load((self.folder / RECORD).read_text("utf-8"))
        return content

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of its command by name, but those from the machine; secrets are masked."""
        content = json.loads((self.folder / VARIABLES).read_text("utf-8"))
        return {name: each["value"] for name, each in content.items() if "value" in each}


class JobRun:
    """A run of a job that is over: its exit `status`, what was said on `stderr`, and its directory."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        folder.mkdir(parents=True)
        job, self.folder = folder / "job.yaml", folder / "run"
        job.write_text(json.dumps(document), "utf-8")
        done = subprocess.run(
            python_argv("pai_runtime.cli", "run", str(job), "--out", str(self.folder)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST_RUN,
            check=False,
        )
        self.status, self.stderr = done.returncode, done.stderr

    def task(self, name: str) -> TaskRun:
        """Return a task by its name, such as ``worker/0``. Raises AssertionError if nothing was started."""
        folder = self.folder / name
        assert folder.is_dir(), f"there is no task {name}: {self.stderr}"
        return TaskRun(folder)


def make_job(
    *uses: Mapping[str, Any], commands: Sequence[str] = ("true",), instances: int = 1, **fields: Any
) -> dict[str, Any]:
    """Return a job with one role, ``worker``, which runs `commands` and uses plugins in this order.

    Each of the `uses` is a prerequisite without its name and type: its `plugin`, and its parameters.
    `fields` are more fields of the job, such as ``secrets``.
    """
    named = [{"name": f"use{number}", "type": "script", **use} for number, use in enumerate(uses)]
    role = {
        "instances": instances,
        "dockerImage": "image",
        "prerequisites": [each["name"] for each in named],
        "resourcePerInstance": {"cpu": 1, "memoryMB": 128, "gpu": 0},
        "commands": list(commands),
    }
    image = {"name": "image", "type": "dockerimage", "uri": "example/image:1"}
    return {
        "protocolVersion": 2,
        "name": "example",
        "type": "job",
        "prerequisites": [image, *named],
        "taskRoles": {"worker": role},
        **fields,
    }
