"""A reader of local runs, from the directory of the run."""

import errno
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pai_runtime.runs.errors import CannotCopy, CannotEnter
from pai_runtime.runs.log_follower import LogFollower
from pai_runtime.runs.names import has_traces
from pai_runtime.runs.progress import Progress, read_progress
from pai_runtime.runs.provenance import Provenance, read_provenance
from pai_runtime.runs.reader import LogName, RunReader, TaskVariables
from pai_runtime.runs.run_lock import is_unlocked, lock_holder
from pai_runtime.runs.state import RUN, Run, RunTask, Unreadable, read_run
from pai_runtime.runs.task_files import TaskFile
from pai_task.events import read_events
from pai_task.exit_record import read_exit_record
from pai_task.fast_json import loads_untrusted
from pai_task.folder import Folder
from pai_task.layout import ATTEMPTS, PLAN, RUNTIME_LOG, SHARED, USER_LOG, USER_LOG_TIMES, VARIABLES
from pai_task.record import replace
from pai_task.state import read_state

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_task.plan import Plan

_LOGS = {"user": USER_LOG, "runtime": RUNTIME_LOG}
_TIMES = {"user": USER_LOG_TIMES.rpartition("/")[2], "runtime": None}
_MOST_BYTES = 8 * 1024 * 1024
"""Maximum size of ``variables.json``; the kernel allows 6 MiB, a task of 10,000 has half a MiB."""


class LocalRunReader(RunReader):
    """A run in a directory, which runs or ran on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self.named = str(folder)

    def run(self) -> Run | Unreadable:
        """Return the run as in ``run.json``; it is lost if its engine died before its end."""
        run = read_run(self.folder)
        if isinstance(run, Unreadable) or run.ended is not None or not is_unlocked(self.folder):
            return run
        run = read_run(self.folder)  # it may have ended meanwhile
        return replace(run, lost=run.ended is None) if isinstance(run, Run) else run

    def provenance(self, *, whole: bool = True) -> Provenance:  # noqa: ARG002 - it is one file
        """Return what the run came from, as in ``provenance.json``."""
        return read_provenance(self.folder)

    def progress(self, task: RunTask) -> Progress | None:
        """Return the progress of a task from its ``state.json``; None if unknown."""
        try:
            with self._folder_of(task) as own:
                return read_progress(own)
        except OSError:
            return None

    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        """Return the exit record of a task; empty if there is none, or it is unreadable."""
        try:
            with self._folder_of(task) as own:
                return read_exit_record(own)
        except OSError:
            return {}

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogFollower:
        """Return a reader of a task's log, or of the log of an earlier attempt."""
        folder = task.name if attempt is None else f"{task.name}/{ATTEMPTS}/{attempt}"
        return LogFollower(self.folder, f"{folder}/{_LOGS[log]}", _TIMES[log])

    def variables(self, task: RunTask) -> TaskVariables:
        """Return the content of a task's ``variables.json``. Raises OSError or ValueError."""
        with self._folder_of(task) as own:
            variables = loads_untrusted(own.read(VARIABLES, _MOST_BYTES))
        if not isinstance(variables, dict):
            raise ValueError("it is not an object")  # noqa: TRY004 - as for all else that is wrong in it
        return TaskVariables(variables)

    def plan(self, task: RunTask) -> "Plan | None":
        """Return the plan of a task; None if it is not kept, or is invalid."""
        from pai_task.plan import Plan, PlanError  # noqa: PLC0415 - as below

        try:
            with self._folder_of(task) as own:
                document = loads_untrusted(own.read(PLAN, _MOST_BYTES))
                return Plan.from_json({**document, "shared": loads_untrusted(own.read(SHARED, _MOST_BYTES))})
        except (OSError, TypeError, ValueError, PlanError):
            return None

    def events(self, task: RunTask, attempt: int | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the events of an attempt of a task, oldest first; empty if they are not kept."""
        where = f"{ATTEMPTS}/{attempt}" if attempt is not None else ""
        try:
            with self._folder_of(task) as own, own.folder(where) as folder:
                return list(read_events(folder))
        except OSError:
            return []

    def cancel(self) -> str:
        """Interrupt the process that runs the job, and return what people can do besides waiting."""
        pid = lock_holder(self.folder)
        if pid is None:
            raise ProcessLookupError(errno.ESRCH, "no process here holds its lock", str(self.folder))
        _interrupt(pid, self.folder)
        return "run this again to kill all tasks now"

    def remove(self) -> int:
        """Remove the directory of a run that is over, and return its size. Raises as `RunReader.remove`."""
        from pai_runtime.engines.local.run_removal import remove_found  # noqa: PLC0415 - as below

        return remove_found(self.folder, lambda folder: LocalRunReader(folder).run())

    def ended(self, run: Run | Unreadable) -> float | None:
        """Return when the run ended; of a lost or abandoned one, when it was last changed."""
        try:
            if isinstance(run, Run):
                is_lost = run.over and run.ended is None
                return (self.folder / RUN).stat().st_mtime if is_lost else super().ended(run)
            is_abandoned = not (self.folder / RUN).exists() and has_traces(self.folder)
            return self.folder.stat().st_mtime if is_abandoned else None
        except OSError:  # somebody else is removing it, or may alone look into it
            return None

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Run a program in a task by its supervisor, and return its exit status. Raises `CannotEnter`."""
        from pai_runtime.engines.local.entering import enter  # noqa: PLC0415 - other commands start faster

        try:
            own = self._folder_of(task)
        except OSError as error:
            raise CannotEnter(f"{error.filename}: {error.strerror}") from None
        with own:
            return enter(own, argv)

    def supervisor(self, task: RunTask) -> int | None:
        """Return the process id that the ``state.json`` of a task tells while its supervisor is alive."""
        from pai_task.session_socket import is_alive  # noqa: PLC0415 - as above

        try:
            with self._folder_of(task) as own:
                pid = read_state(own).get("pid") if is_alive(own) else None
        except OSError:
            return None
        return pid if type(pid) is int and pid > 1 else None

    def connected(self, task: RunTask, address: str) -> AbstractContextManager[str]:  # noqa: ARG002 - all are here
        """Return the address of a service; of this machine, since a task could write any other."""
        from pai_runtime.engines.local.addresses import check_address  # noqa: PLC0415 - as above

        check_address(address)
        return nullcontext(address)

    def files(self, task: RunTask, path: str) -> Iterator[TaskFile]:
        """Yield a file or directory in the working directory of a task. Raises `CannotCopy`."""
        from pai_runtime.engines.local.copying import task_files  # noqa: PLC0415 - as above

        try:
            own = self._folder_of(task)
        except OSError as error:
            raise CannotCopy(f"{error.filename}: {error.strerror}") from None
        with own:
            yield from task_files(own, path)

    def _folder_of(self, task: RunTask) -> Folder:
        with Folder.at(self.folder) as run:
            return run.folder(task.name)


def _interrupt(holder: int, folder: Path) -> None:
    """Interrupt the process if it still holds the lock; while it is open, its number is not reused."""
    try:
        fd = os.pidfd_open(holder)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        os.kill(holder, signal.SIGINT)  # a kernel before 5.3
        return
    try:
        if lock_holder(folder) != holder:
            raise ProcessLookupError(errno.ESRCH, "no process here holds its lock any more", str(folder))
        signal.pidfd_send_signal(fd, signal.SIGINT)
    finally:
        os.close(fd)
