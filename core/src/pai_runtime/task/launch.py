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

_NUMBER = (int, float)
_NONE = type(None)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "timeout": (*_NUMBER, _NONE),
    "grace": _NUMBER,
    "exit_budget": _NUMBER,
    "prefix": (str,),
    "rotation": (dict,),
    "termination_log": (str, _NONE),
    "folder_fd": (int, _NONE),
    "secrets_fd": (int, _NONE),
    "sessions_fd": (int, _NONE),
    "pid": (int, _NONE),
    "python": (str, _NONE),
    "hook_argv": (list,),
    "certificates": (str, _NONE),
    "variables": (dict,),
    "phases": (str,),
    "logs": (str, _NONE),
    "work": (str, _NONE),
    "tools": (str, _NONE),
    "umask": (int, _NONE),
}

_PATHS = ("termination_log", "logs", "work", "tools")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


_KEYS = {name: _camel(name) for name in _KINDS}
"""The names of the options in JSON."""


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
    """The options of one start of a supervisor, set by the engine; times are in seconds.

    - `timeout`: until the task is ended; None: never.
    - `grace`: between SIGTERM and SIGKILL.
    - `exit_budget`: what exit callbacks may take in all once the task has been told to stop.
    - `prefix`: stands before each line that is passed on to standard output and standard error.
    - `termination_log`: a file for the exit record, where the platform looks for it, such as
      ``/tmp/pai-termination-log``.
    - `folder_fd`: a descriptor of the task's folder, where the task cannot see it.
    - `secrets_fd`: a descriptor of a JSON object, the value of each secret by its path.
    - `sessions_fd`: a descriptor of a listening socket by which people run programs in the task
      (`pai_runtime.task.session`).
    - `pid`: the supervisor's process id as others see it; None: as it sees itself.
    - `python`: an interpreter for services; None: the supervisor's own.
    - `hook_argv`: the program that calls a plugin's hook; the hook's name is added. Empty: no plan with hooks
      can run.
    - `certificates`: a file with those of authorities, for hooks, unless the environment names others.
    - `variables`: the platform's variables of this attempt, which take precedence over the plan's.
    - `phases`: ``init`` runs the init steps and nothing else, ``rest`` all but these, in a later process over
      the same folder, ``all`` both. What init steps set in the environment reaches later steps with ``all``
      only, since it may be secret and is not written down.
    - `logs`: the directory of the logs, in which a copy of the exit record is left too; None: ``logs`` in the
      task's folder, and no copy.
    - `work`: the working directory of the command; None: ``work`` in the task's folder.
    - `tools`: a directory with a shell and the usual programs, for images without.
    - `umask`: that of the task's processes; None: the supervisor's own.
    """

    timeout: float | None = None
    grace: float = 10
    exit_budget: float = 30
    prefix: str = ""
    rotation: Rotation = Rotation()
    termination_log: str | None = None
    folder_fd: int | None = None
    secrets_fd: int | None = None
    sessions_fd: int | None = None
    pid: int | None = None
    python: str | None = None
    hook_argv: tuple[str, ...] = ()
    certificates: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    phases: Phases = "all"
    logs: str | None = None
    work: str | None = None
    tools: str | None = None
    umask: int | None = None

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
            if not isinstance(value, _KINDS[name]) or isinstance(value, bool):
                raise ValueError(f"the launch option {_KEYS[name]} is {value!r}, which is of the wrong type")  # noqa: TRY004 - as above
        if "phases" in fields and fields["phases"] not in PHASES:
            raise ValueError(f"the launch option phases is {fields['phases']!r}; known: {', '.join(PHASES)}")
        if "rotation" in fields:
            fields["rotation"] = _rotation(fields["rotation"])
        for name in _PATHS:
            if fields.get(name) is not None:
                fields[name] = os.path.abspath(fields[name])
        if "hook_argv" in fields:
            fields["hook_argv"] = tuple(fields["hook_argv"])
        return cls(**fields)


def _rotation(given: Mapping[str, Any]) -> Rotation:
    try:
        return Rotation(**given)
    except TypeError as error:
        raise ValueError(f"the launch option rotation: {error}") from None


DEFAULT = LaunchOptions()
