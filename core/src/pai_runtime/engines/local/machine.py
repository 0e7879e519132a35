"""This machine as an engine: each run is a directory, and its tasks are processes."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from pai_runtime.engines.interface import Engine, NewRun, Option, RunRequest
from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.engines.local.request import IsolationMode
from pai_runtime.runs.names import RUNS, NoSuchRun, has_traces, is_among_runs, named_run
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import RUN, Run, Unreadable

if TYPE_CHECKING:
    from pai_document.problems import Problems
    from pai_runtime.engines.local.engine import LocalRun, MakeSite
    from pai_runtime.job.model import Job
    from pai_runtime.plan.environment import Placement, TaskName
    from pai_runtime.runs.run_folder import RunFolder
    from pai_task.plan import Plan


def _variable(text: str) -> str:
    """Check ``NAME`` or ``NAME=VALUE``. An invalid name is not shown, since it may be a value."""
    from argparse import ArgumentTypeError  # noqa: PLC0415 - only what is used is imported

    from pai_document.secret_names import names_secret  # noqa: PLC0415 - only what is used is imported
    from pai_runtime.engines.local.environment import is_name  # noqa: PLC0415 - as above

    name, equals, _ = text.partition("=")
    if not is_name(name):
        raise ArgumentTypeError("expected NAME=VALUE, or the NAME of a variable of yours")
    if equals and names_secret(name):
        raise ArgumentTypeError(
            f"others can see a command line; export {name}, and pass it on by --env {name}"
        )
    if equals and name.startswith("PAI_"):
        raise ArgumentTypeError(f"the runtime sets {name} itself")
    return text


def _storage(text: str) -> tuple[str, Path]:
    """Parse ``NAME=DIR``, the name of a storage and its directory."""
    from argparse import ArgumentTypeError  # noqa: PLC0415 - as above

    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise ArgumentTypeError(f"expected NAME=DIR, such as data=/mnt/data, found {text!r}")
    return name, Path(folder)


OPTIONS: Final = (
    Option("share", "let other users of this machine look into the directory of the run, as your umask says"),
    Option(
        "isolation",
        "let each task write to its own directory only (default: auto, if the kernel allows it)",
        choices=get_args(IsolationMode),
    ),
    Option(
        "env",
        "set this environment variable in all tasks; without a value, pass yours on; repeatable",
        "NAME[=VALUE]",
        _variable,
        repeatable=True,
    ),
    Option(
        "storage",
        "use a local directory as this storage of the cluster; repeatable",
        "NAME=DIR",
        _storage,
        repeatable=True,
    ),
    Option(
        "storage-config",
        "YAML file that maps names of storages to local directories; --storage takes precedence",
        "FILE",
        Path,
    ),
)


class LocalEngine(Engine):
    """This machine, with the runs in the directory `where`."""

    options: Sequence[Option] = OPTIONS
    cannot: Mapping[str, str] = {
        "render": "the manifests are those of a cluster, which --on names",
    }
    has_own_plugins = False
    runs_go_on = False
    prints_output = True
    keeps_provenance = True

    def __init__(self, where: Path = RUNS) -> None:
        self._where = where

    def new_run(self, request: RunRequest) -> "NewLocalRun":
        """Return a run that is not started yet."""
        return NewLocalRun(request)

    def open_run(self, name: str) -> LocalRunReader:
        """Return the run in the directory of this name."""
        return LocalRunReader(named_run(name))

    def find_run(self, name: str, user: str) -> LocalRunReader:  # noqa: ARG002 - all are the user's
        """Return the run in the directory that a person means by a name. Raises `NoSuchRun`."""
        return self.open_run(name)

    def runs(self) -> Sequence[tuple[RunReader, Run | Unreadable]]:
        """Return the runs in the directory, also those that were abandoned before they started."""
        readers = map(LocalRunReader, self._folders())
        found = [(reader, reader.run()) for reader in readers]
        return sorted(
            found, key=lambda each: each[1].started if isinstance(each[1], Run) else 0, reverse=True
        )

    def part(self, name: str) -> "LocalEngine | None":
        """Return the runs in another directory; None for the directory of a run. Raises `NoSuchRun`."""
        folder = named_run(name)
        if not os.access(folder, os.R_OK | os.X_OK):
            raise NoSuchRun(f"{folder} is not a readable directory")
        is_run = os.path.exists(folder / RUN)  # noqa: PTH110 - pathlib's raises where permission is missing
        return None if is_run else LocalEngine(folder)

    def _folders(self) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for path in self._where.iterdir():
                is_of_somebody = is_among_runs(path) and not os.access(path, os.R_OK | os.X_OK)
                if path.is_dir() and (is_of_somebody or (path / RUN).exists() or has_traces(path)):
                    yield path


class NewLocalRun(NewRun):
    """A run that is not started yet, with its tasks as processes of this machine, or at another `site`."""

    _folder: "RunFolder | None" = None
    _run: "LocalRun | None" = None

    def __init__(self, request: RunRequest, site: "MakeSite | None" = None) -> None:
        self._request = request
        self._site = site

    def place(self, job: "Job") -> "Placement":
        """Create the directory of the run, and return a placement with ports that are free now."""
        from pai_runtime.engines.local.engine import LocalRun  # noqa: PLC0415 - only what is used is imported
        from pai_runtime.engines.local.processes import Processes  # noqa: PLC0415 - as above
        from pai_runtime.engines.local.request import LocalRequest  # noqa: PLC0415 - as above
        from pai_runtime.engines.local.storages import read_storages  # noqa: PLC0415 - as above
        from pai_runtime.runs.run_folder import RunFolder  # noqa: PLC0415 - as above

        request, options = self._request, self._request.options
        written = read_storages(options["storage-config"]) if "storage-config" in options else {}
        self._folder = RunFolder(job.name, request.out, shared=options.get("share", False))
        wanted = LocalRequest(
            folder=self._folder.path,
            user=request.user,
            say=request.say,
            prints_output=request.prints_output,
            timeout=request.timeout,
            isolation=options.get("isolation", "auto"),
            storages={**written, **dict(options.get("storage", ()))},
            environment=tuple(options.get("env", ())),
            code=request.code,
            definitions=request.definitions,
            provenance=request.provenance,
            earlier_attempts=request.earlier_attempts,
        )
        self._run = LocalRun(job, wanted, self._site or Processes)
        return self._run.place()

    def check(self, plans: "Mapping[TaskName, Plan]", problems: "Problems", *, ask: bool = True) -> None:  # noqa: ARG002
        """Check that this machine provides what the tasks need. Raises `CannotRun`."""
        if self._run is not None:
            self._run.check(plans)

    def submit(self, plans: "Mapping[TaskName, Plan]", secrets: Mapping[str, str]) -> RunReader:
        """Create all that the tasks need; they start when the run is followed. Raises `CannotRun`."""
        from pai_runtime.runs.noted_folders import note_folder  # noqa: PLC0415 - only what is used is imported

        if self._run is None or self._folder is None:
            raise TypeError("a run is placed before it is submitted")
        self._run.prepare(plans, secrets)
        note_folder(self._folder.path)
        return _OwnRun(self._run, self._folder)

    def tell_end(self, *, has_succeeded: bool) -> None:
        """Call the hooks for the end of the job, which this element of an array has decided."""
        if self._run is not None:
            self._run.tell_end(has_succeeded=has_succeeded)

    def discard(self) -> None:
        """Remove what was created, if it is empty."""
        if self._run is not None:
            self._run.discard()
        if self._folder is not None:
            self._folder.discard()


class _OwnRun(LocalRunReader):
    """A run of this process, which lasts as long as somebody follows it."""

    goes_on = False

    def __init__(self, run: "LocalRun", folder: "RunFolder") -> None:
        super().__init__(folder.path)
        self._run = run
        self._folder = folder

    def run(self) -> Run:
        return self._run.now

    def wait(self, seconds: float) -> None:
        self._run.turn(seconds)

    def interrupt(self, number: int) -> None:
        self._run.cancel(number)

    def news(self, before: Run, now: Run) -> Sequence[str]:  # noqa: ARG002
        return ()  # the engine has said them, with their reasons

    def close(self) -> None:
        self._run.close()
        self._folder.unlock()
