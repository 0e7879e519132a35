"""The plugin ``com.microsoft.pai.runtimeplugin.git``, which clones a git repository before the task."""

import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import FrameType

from pai_git.cloning import CloneFailed, clone, say
from pai_git.placing import holds, place, refuse_what_is_there
from pai_git.request import Request, read_request
from pai_git.retries import Retries
from pai_runtime.plugin import Contribution, ShellStep, Task, Use, hookimpl

VARIABLE = "PAI_GIT_DIR"
"""The name of the environment variable with the path of the clone."""
OWN_FOLDER = "code"
"""The default folder of the clone, in the task's folder."""


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Contribute the variable with the path of the clone. Raises `UserError` for invalid parameters."""
    folder = task.folder / OWN_FOLDER if (given := read_request(use.parameters).clone_dir) is None else given
    if folder.is_absolute():
        return Contribution({VARIABLE: str(folder)})
    # Only the task's container knows its working directory.
    export = f'export {VARIABLE}="$PAI_WORK_DIR"/{shlex.quote(str(folder))}'
    return Contribution(steps=[ShellStep("taskStarts", export)])


@hookimpl
def pai_init(use: Use, task: Task) -> None:
    """Clone to the final place if that is in the task's folder, else to a staging folder there."""
    request = read_request(use.parameters)
    folder = task.folder / OWN_FOLDER if request.clone_dir is None else _staged(use, task)
    with _sigterm_raises():
        _clone_once(request, use.parameters.get("token"), folder, _staged(use, task).with_suffix(".part"))


@hookimpl
def pai_task_starts(use: Use, task: Task) -> None:
    """Move the clone to its final place in the file system of the task's container."""
    request = read_request(use.parameters)
    if request.clone_dir is None:
        return
    staged = _staged(use, task)
    if not staged.exists():
        raise CloneFailed("there is no clone to move into place: cloning failed before")
    with _sigterm_raises():
        folder = Path.cwd() / request.clone_dir
        if place(staged, folder, request.identity):
            say(f"moved into place at {folder}")
        else:
            say(f"{folder} already has this clone and is left unchanged")


def _clone_once(request: Request, token: str | None, folder: Path, scratch: Path) -> None:
    if holds(folder, request.identity):
        say(f"{folder} already has this clone and is left unchanged")
        return
    refuse_what_is_there(folder)
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed
    try:
        scratch.mkdir()
        clone(request, token, scratch, Retries(request.retry_seconds))
        place(scratch / "clone", folder, request.identity)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _staged(use: Use, task: Task) -> Path:
    """Return a staging folder for this use alone, the same in each of its hooks."""
    return task.folder / f".git-clone-{sha256(use.source.encode()).hexdigest()[:12]}"


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise `CloneFailed` on SIGTERM: a cancelled task must leave no unfinished clone and no running git."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough, and cleaning up must not be cut short
        raise CloneFailed("cancelled")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
