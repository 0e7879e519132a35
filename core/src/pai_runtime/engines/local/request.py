"""The request to run a job on this machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pai_runtime.engines.code import Code
from pai_runtime.engines.view import View
from pai_runtime.task.record import record

IsolationMode = Literal["auto", "none", "required"]


@record(frozen=True)
class RunRequest:
    """The way in which a job is to be run on this machine.

    `folder` is the empty directory of the run; `timeout` is in seconds, for the whole run. `storages` maps
    names of storages to directories of this machine; `environment` names variables of ours that tasks are to
    have, besides those that the job asks for. `code` is the content of each task's working directory when it
    starts. `definitions` is a lock file with all definitions that the job requires, for the directory of the
    run and for pods; empty if it requires none. `machine` is the root directory in which devices are looked
    for.
    """

    folder: Path
    user: str
    view: View
    timeout: float | None
    isolation: IsolationMode
    storages: Mapping[str, Path]
    environment: tuple[str, ...]
    code: Code | None
    definitions: str
    machine: Path = Path("/")
