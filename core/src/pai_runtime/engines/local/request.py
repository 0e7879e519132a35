"""The request to run a job on this machine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pai_task.record import field, record

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_runtime.engines.code import Code

IsolationMode = Literal["auto", "none", "required"]


@record(frozen=True)
class LocalRequest:
    """The way in which a job is to be run on this machine.

    `folder` is the empty directory of the run. What may surprise people is passed to `say`. If
    `prints_output`, the tasks write to our standard output. `timeout` is in seconds, for the whole run.
    `storages` maps names of storages to directories of this machine; `environment` names variables of ours
    that tasks are to have, besides those that the job asks for. `code` is the content of each task's working
    directory when it starts. `definitions` is a lock file with all definitions that the job requires, for the
    directory of the run and for pods; empty if it requires none. `machine` is the root directory in which
    devices are looked for. `provenance` says where the run comes from, for its directory. `earlier_attempts`
    of the job were no retries of ours.
    """

    folder: Path
    user: str
    say: Callable[[str], None]
    timeout: float | None
    isolation: IsolationMode
    storages: Mapping[str, Path]
    environment: tuple[str, ...]
    code: "Code | None"
    definitions: str
    prints_output: bool = True
    machine: Path = Path("/")
    provenance: Mapping[str, Any] = field(default_factory=dict)
    earlier_attempts: int = 0
