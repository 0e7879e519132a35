"""How a job is to be run on this machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pai_runtime.engines.code import Code
from pai_runtime.engines.view import View
from pai_runtime.task.record import record

IsolationMode = Literal["auto", "none", "required"]


@record(frozen=True)
class RunRequest:
    """How a job is to be run.

    `folder` is that of the run, and empty; `timeout` in seconds, for the whole run. `storages`: directories
    of this machine by storage name; `environment`: names of variables of ours that tasks are to have, beside
    those that the job asks for. `code`: what is in the working directory of each task when it starts.
    `definitions`: a lock file that carries all definitions which the job requires, for the directory of the
    run and for pods; empty if it requires none.
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
