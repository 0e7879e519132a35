"""Launch options of a task's supervisor, passed as one argument after the task's directory."""

from __future__ import annotations

import os

from pai_task.fast_json import dumps, loads
from pai_task.record import field, record, replace
from pai_task.record_json import from_json, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pai_task.vocabulary import Phases

PHASES: tuple[Phases, ...] = ("all", "init", "rest")


@record(frozen=True)
class Rotation:
    """The rotation of a log: `count` files of at most `size` bytes are kept, including the live one.

    Rotated files of the user's logs are ``current.1`` and so on, or with `tai64n` named as multilog does
    (`pai_task.log_file`).
    """

    size: int = 256 * 1024 * 1024
    count: int = 2
    tai64n: bool = False


@record(frozen=True)
class LaunchOptions:
    """What an engine decides of one start of a supervisor; times in seconds."""

    timeout: float | None = None
    """Until the task is ended; None: never."""
    timeout_of: str = ""
    """Whose timeout that is, for the record, such as "the allocation"; empty: the run's own."""
    grace: float = 10
    """Between SIGTERM and SIGKILL."""
    exit_budget: float = 30
    """What exit callbacks may take in all once the task has been told to stop."""
    prefix: str = ""
    """Stands before each line that is passed on to standard output and standard error."""
    rotation: Rotation = Rotation()
    """How much of each log is kept."""
    termination_log: str | None = None
    """A file for the exit record, where the platform looks for it; see `pai_task.paths`."""
    folder_fd: int | None = None
    """A descriptor of the task's folder, where the task cannot see it."""
    secrets_fd: int | None = None
    """A descriptor of a JSON object, the value of each secret by its path."""
    sessions_fd: int | None = None
    """A descriptor of a listening socket by which people run programs in the task; see `pai_task.session`."""
    lifeline_fd: int | None = None
    """A descriptor of a pipe whose other end whoever started the task holds; once that is closed, the task is
    told to stop, unless it has been told."""
    pid: int | None = None
    """The supervisor's process id as others see it; None: as it sees itself."""
    python: str | None = None
    """An interpreter for services; None: the supervisor's own."""
    hook_argv: tuple[str, ...] = ()
    """The program that calls a plugin's hook; the hook's name is added. Empty: no plan with hooks can run."""
    certificates: str | None = None
    """A file with those of authorities, for hooks, unless the environment names others."""
    supervised: bool = False
    """Whether a run supervisor is above the task, which itself calls the hooks for the end of the run."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The platform's variables of this attempt, which take precedence over the plan's."""
    phases: Phases = "all"
    """``init`` runs the init steps and nothing else, ``rest`` all but these, in a later process over the same
    folder, ``all`` both. What init steps set in the environment reaches later steps with ``all`` only, since
    it may be secret and is not written down."""
    logs: str | None = None
    """The directory of the logs, in which a copy of the exit record is left too; None: ``logs`` in the task's
    folder, and no copy."""
    work: str | None = None
    """The working directory of the command; None: ``work`` in the task's folder."""
    tools: str | None = None
    """A directory with a shell and the usual programs, for images without."""
    served_at: str | None = None
    """The host at which people reach the services of the task; None: the task's own."""
    shares_memory: bool = False
    """Whether tasks of the same run are in its memory cgroup: whose process was out of memory is unknown."""
    umask: int | None = None
    """The umask of the task's processes; None: the supervisor's own."""

    def to_argument(self) -> str:
        """Return the options as JSON, without those that have their default value."""
        default = to_json(DEFAULT)
        return dumps({key: value for key, value in to_json(self).items() if value != default[key]})

    @classmethod
    def from_argument(cls, argument: str) -> LaunchOptions:
        """Parse options from JSON, and make their paths absolute. Raises `ValueError` if they are invalid."""
        try:
            options = from_json(cls, loads(argument))
        except ValueError as error:
            raise ValueError(f"launch options: {error}") from None
        if options.phases not in PHASES:
            raise ValueError(f"the launch option phases is {options.phases!r}; known: {', '.join(PHASES)}")
        paths = {name: os.path.abspath(path) for name in _PATHS if (path := getattr(options, name))}
        return replace(options, **paths)


_PATHS = ("termination_log", "logs", "work")

DEFAULT = LaunchOptions()
