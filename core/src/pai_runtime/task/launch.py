"""Launch options of a task's supervisor, passed as one argument after the task's directory."""

from __future__ import annotations

import os

from pai_runtime.task.fast_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import dataclass as record
    from dataclasses import field
    from typing import Any

    from pai_runtime.task.vocabulary import Phases
else:
    from pai_runtime.task.record import field, record


PHASES: tuple[Phases, ...] = ("all", "init", "rest")

AbsolutePath = str
"""A path that is made absolute when it is read."""

# What JSON has for a value of each type that an option is annotated with.
_KINDS: Mapping[str, tuple[type, ...]] = {
    "None": (type(None),),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "AbsolutePath": (str,),
    "Phases": (str,),
    "Rotation": (dict,),
    "Mapping[str, str]": (dict,),
    "tuple[str, ...]": (list,),
}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


@record(frozen=True)
class Rotation:
    """The rotation of a log: `count` files of at most `size` bytes are kept, including the live one.

    Rotated files of the user's logs are ``current.1`` and so on, or with `tai64n` named as multilog does
    (`pai_runtime.task.earlier_logs`).
    """

    size: int = 256 * 1024 * 1024
    count: int = 2
    tai64n: bool = False


@record(frozen=True)
class LaunchOptions:
    """What an engine decides of one start of a supervisor; times in seconds."""

    timeout: float | None = None
    """Until the task is ended; None: never."""
    grace: float = 10
    """Between SIGTERM and SIGKILL."""
    exit_budget: float = 30
    """What exit callbacks may take in all once the task has been told to stop."""
    prefix: str = ""
    """Stands before each line that is passed on to standard output and standard error."""
    rotation: Rotation = Rotation()
    """How much of each log is kept."""
    termination_log: AbsolutePath | None = None
    """A file for the exit record, where the platform looks for it; see `pai_runtime.task.paths`."""
    folder_fd: int | None = None
    """A descriptor of the task's folder, where the task cannot see it."""
    secrets_fd: int | None = None
    """A descriptor of a JSON object, the value of each secret by its path."""
    sessions_fd: int | None = None
    """A descriptor of a listening socket by which people run programs in the task; see `task.session`."""
    pid: int | None = None
    """The supervisor's process id as others see it; None: as it sees itself."""
    python: str | None = None
    """An interpreter for services; None: the supervisor's own."""
    hook_argv: tuple[str, ...] = ()
    """The program that calls a plugin's hook; the hook's name is added. Empty: no plan with hooks can run."""
    certificates: str | None = None
    """A file with those of authorities, for hooks, unless the environment names others."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The platform's variables of this attempt, which take precedence over the plan's."""
    phases: Phases = "all"
    """``init`` runs the init steps and nothing else, ``rest`` all but these, in a later process over the same
    folder, ``all`` both. What init steps set in the environment reaches later steps with ``all`` only, since
    it may be secret and is not written down."""
    logs: AbsolutePath | None = None
    """The directory of the logs, in which a copy of the exit record is left too; None: ``logs`` in the task's
    folder, and no copy."""
    work: AbsolutePath | None = None
    """The working directory of the command; None: ``work`` in the task's folder."""
    tools: AbsolutePath | None = None
    """A directory with a shell and the usual programs, for images without."""
    umask: int | None = None
    """The umask of the task's processes; None: the supervisor's own."""

    def to_argument(self) -> str:
        """Return the options as JSON, without those that have their default value."""
        fields = {_KEYS[name]: value for name, value in vars(self).items() if value != vars(DEFAULT)[name]}
        if "rotation" in fields:
            fields["rotation"] = vars(self.rotation)
        return dumps(fields)

    @classmethod
    def from_argument(cls, argument: str) -> LaunchOptions:
        """Parse options from JSON. Raises `ValueError` if they are invalid."""
        document = loads(argument)
        if not isinstance(document, dict):
            raise ValueError("the launch options are not a JSON object")  # noqa: TRY004 - as for all else that is wrong
        fields = {name: document.pop(key) for name, key in _KEYS.items() if key in document}
        if document:
            unknown = ", ".join(map(repr, document))
            raise ValueError(f"no launch option is named {unknown}; known: {', '.join(_KEYS.values())}")
        for name, value in fields.items():
            kinds = (_KINDS[each] for each in _TYPES[name])
            if not any(isinstance(value, kind) for kind in kinds) or isinstance(value, bool):
                raise ValueError(f"the launch option {_KEYS[name]} is {value!r}, which is of the wrong type")
        if "phases" in fields and fields["phases"] not in PHASES:
            raise ValueError(f"the launch option phases is {fields['phases']!r}; known: {', '.join(PHASES)}")
        if "rotation" in fields:
            fields["rotation"] = _rotation(fields["rotation"])
        for name, types in _TYPES.items():
            if "AbsolutePath" in types and fields.get(name) is not None:
                fields[name] = os.path.abspath(fields[name])
        if "hook_argv" in fields:
            fields["hook_argv"] = tuple(fields["hook_argv"])
        return cls(**fields)


def _rotation(given: Mapping[str, Any]) -> Rotation:
    try:
        return Rotation(**given)
    except TypeError as error:
        raise ValueError(f"the launch option rotation: {error}") from None


_TYPES = {name: str(text).split(" | ") for name, text in LaunchOptions.__annotations__.items()}
_KEYS = {name: _camel(name) for name in _TYPES}
"""The names of the options in JSON."""

DEFAULT = LaunchOptions()
