"""What an engine is: where jobs run, on this machine or on a cluster, which an engine profile describes.

An engine is a plugin whose manifest has a name for it, which profiles call it by, and whose hook `pai_engine`
opens an `Engine`. It is imported when a profile of it is named, if the policies in force allow it. The engine
for this machine is the one that needs no profile.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pai_runtime.runs.names import LATEST, NoSuchRun
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, Unreadable
from pai_task.record import field, record

if TYPE_CHECKING:  # the commands that only look at runs start faster without
    from pai_document.problems import Problems
    from pai_runtime.engines.code import Code
    from pai_runtime.job.model import Job
    from pai_runtime.job.overrides import Overrides
    from pai_runtime.plan.environment import Placement, TaskName
    from pai_task.plan import Plan

Say = Callable[[str], None]
"""A function that tells a person something, as a sentence without the name of the program."""


@record(frozen=True)
class Option:
    """An option of ``pai-runtime run`` that an engine declares, such as ``isolation`` for ``--isolation``.

    `parse` makes its value of what is written; it raises `argparse.ArgumentTypeError` or `ValueError`.
    Without a `metavar` and `choices` the option is a flag. The values of a `repeatable` one are a list.
    """

    name: str
    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    choices: Sequence[str] = ()
    repeatable: bool = False


def _nobody_listens(_text: str) -> None:
    """Drop a note."""


def _no_overrides() -> "Overrides":
    from pai_runtime.job.overrides import NO_OVERRIDES  # noqa: PLC0415 - see above

    return NO_OVERRIDES


@record(frozen=True)
class RunRequest:
    """The way in which a job is to be run.

    `user` is who asks. `overrides` are the command line's changes of the job. `code` is the content of each
    task's working directory when it starts. `definitions` is a lock file with all definitions that the job
    requires; empty if it requires none. `timeout` is in seconds, for the whole run. `out` is the empty or
    missing directory that was chosen for what there is of the run on this machine. `options` has the values
    of the engine's own options that were given, by name. `say` is for notes before the run. If
    `prints_output`, the tasks are to write to our standard output; else the program shows their logs.
    `provenance` says where the run comes from, to be kept with it. `earlier_attempts` of the job were made by
    what has started it again, as a cluster does after the loss of a node.
    """

    user: str
    overrides: "Overrides" = field(default_factory=_no_overrides)
    code: "Code | None" = None
    definitions: str = ""
    say: Say = _nobody_listens
    timeout: float | None = None
    out: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    prints_output: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict)
    earlier_attempts: int = 0


@record(frozen=True)
class Rendered:
    """What would be submitted, as text that other programs take, such as manifests or a script.

    `text` holds no secret value. What does is in `secret_text`, and `secret_names` says what that is; both
    are empty if there is nothing of that kind.
    """

    text: str
    secret_text: str = ""
    secret_names: Sequence[str] = ()


class Engine(ABC):
    """A place where jobs run, as one profile uses it.

    `options` are its own options of ``pai-runtime run``. `cannot` maps words of the command line, commands
    such as ``rm`` and options such as ``--task``, to the reason why it cannot do that. `has_own_plugins` says
    that tasks use the plugins that are installed there, so that one that is missing here is no error,
    `runs_go_on` that its runs need no process of ours. With `prints_output`, its tasks can write to the
    standard output of who follows them. With `keeps_provenance`, where a run comes from is kept with it.
    """

    options: Sequence[Option] = ()
    cannot: Mapping[str, str] = MappingProxyType({})
    has_own_plugins: bool = True
    runs_go_on: bool = True
    prints_output: bool = False
    keeps_provenance: bool = False

    @abstractmethod
    def new_run(self, request: RunRequest) -> "NewRun":
        """Return a run that is not submitted yet."""

    @abstractmethod
    def open_run(self, name: str) -> RunReader:
        """Return the run of this name, whoever submitted it, without checking that it exists."""

    @abstractmethod
    def runs(self) -> Sequence[tuple[RunReader, Run | Unreadable]]:
        """Return all runs, newest first. Raises `ClusterError`.

        Calls in quick succession, such as every second, share the answers of a cluster.
        """

    def user(self, here: str) -> str:
        """Return who a user of this machine is in `Run.user` of their runs. Raises `ClusterError`."""
        return here

    def find_run(self, name: str, user: str) -> RunReader:
        """Return the run that a person means by a name, which may be ``latest``. Raises `NoSuchRun`."""
        if name != LATEST:
            return self.open_run(name)
        own = self.user(user)
        for reader, run in self.runs():
            if isinstance(run, Run) and run.user == own:
                return reader
        raise NoSuchRun(f"there is no run of the user '{own}'")

    def part(self, name: str) -> "Engine | None":  # noqa: ARG002 - for those that have parts
        """Return the part of this name, such as a directory of runs; None if no part has it."""
        return None


class NewRun(ABC):
    """A run that is not submitted yet. `place`, `check` and `submit` are called once each, in this order."""

    @abstractmethod
    def place(self, job: "Job") -> "Placement":
        """Return the placement of the job's tasks as far as it is known: names, not yet addresses.

        Raises `CannotRun` or `InvalidInput`.
        """

    @abstractmethod
    def check(self, plans: "Mapping[TaskName, Plan]", problems: "Problems", *, ask: bool = True) -> None:
        """Report what the job cannot have here.

        Without `ask`, only the profile decides. Raises `CannotRun`, or `ClusterError` if a cluster cannot be
        asked.
        """

    def render(
        self,
        plans: "Mapping[TaskName, Plan]",
        secrets: Mapping[str, str],
        *,
        name: str | None = None,
    ) -> Rendered:
        """Return what would be submitted; except for its secrets, the same bytes for the same job.

        `name` is that of the run; without it, the name is derived from the job and its content. `secrets` has
        the values by the paths in the plans. Raises `CannotRun`. Engines that do not render declare that as
        ``render`` in `Engine.cannot`.
        """
        raise NotImplementedError

    @abstractmethod
    def submit(self, plans: "Mapping[TaskName, Plan]", secrets: Mapping[str, str]) -> RunReader:
        """Start the run of the tasks with these plans, and return it.

        Raises `CannotRun`; nothing is left then, unless it is a `MayBeLeft`.
        """

    def discard(self) -> None:  # noqa: B027 - most leave nothing
        """Remove what `place` or `check` has left, if the run is not submitted after all."""
