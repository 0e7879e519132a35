"""Start of the keepers of containers, each of which is the child of the engine that stands for a task."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pai_container.client import Client, own_environment
from pai_container.container import PUBLISHED_AT, Container, owner_argv, run_argv
from pai_runtime.engine.local import STOP_SIGNALS, Folder, Launch, LaunchOptions, python_argv

KEEPER: Final = "pai_container.keeper"
REQUEST_FD, LOCK_FD = 3, 4
"""The descriptors that a keeper gets: the file with its request, and the lock of the run's network."""


@dataclass(frozen=True)
class Request:
    """What a keeper is told: the directory of the task, its launch options, and the commands to be run.

    `has_init` means that the plan has init steps. `owner` is the command that gives the task's files back to
    the user. `is_again` means that a container of an earlier attempt may be left. `parent` is the process of
    the engine.
    """

    folder: str
    options: str
    has_init: bool
    run: list[str]
    stop: list[str]
    remove: list[str]
    owner: list[str]
    remove_network: list[str]
    is_again: bool
    parent: int
    secrets: dict[str, str] = field(repr=False)

    @classmethod
    def from_json(cls, text: bytes) -> "Request":
        """Parse the JSON of a request's `asdict`."""
        return cls(**json.loads(text))


class Launcher:
    """A launcher of the containers of tasks, by the directories of these; `lock` is an open file."""

    def __init__(
        self, client: Client, lock: int, containers: Mapping[str, Container], has_init: Mapping[str, bool]
    ) -> None:
        self._client = client
        self._lock = lock
        self._containers = containers
        self._has_init = has_init
        self._launched: set[str] = set()

    def launch(self, what: Launch, _folder: Folder, secrets: Mapping[str, str]) -> int:
        """Start the keeper of a task's container, and return its process id. Raises OSError."""
        container, program = self._containers[what.folder], self._client.path
        request = Request(
            folder=what.folder,
            options=_options(what),
            has_init=self._has_init[what.folder],
            run=run_argv(self._client, container),
            stop=[program, "kill", "--signal=TERM", container.name],
            remove=[program, "rm", "--force", container.name],
            owner=owner_argv(self._client, container, self._owner()),
            remove_network=[program, "network", "rm", container.network],
            is_again=what.folder in self._launched,
            parent=os.getpid(),
            secrets=dict(secrets),
        )
        self._launched.add(what.folder)
        return self._start(asdict(request))

    def _start(self, request: Mapping[str, Any]) -> int:
        fd = os.memfd_create("pai-runtime")
        try:
            with os.fdopen(fd, "w", encoding="utf-8", closefd=False) as file:
                json.dump(request, file)
            os.lseek(fd, 0, os.SEEK_SET)
            argv = python_argv(KEEPER)
            opened = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in (0, 1)]
            given = [(os.POSIX_SPAWN_DUP2, fd, REQUEST_FD), (os.POSIX_SPAWN_DUP2, self._lock, LOCK_FD)]
            return os.posix_spawn(
                argv[0],
                argv,
                own_environment(),
                file_actions=[*opened, *given],
                setsid=True,  # a key that is pressed is for the engine
                setsigmask=STOP_SIGNALS,
            )
        finally:
            os.close(fd)

    def _owner(self) -> str:
        return "0:0" if self._client.is_rootless else f"{os.geteuid()}:{os.getegid()}"


def _options(what: Launch) -> str:
    """Return the launch options for the container: with the variables, without what is this machine's."""
    given = LaunchOptions.from_argument(what.options)
    variables = {**what.environment, **given.variables}
    return LaunchOptions(
        timeout=given.timeout,
        supervised=given.supervised,
        variables=variables,
        served_at=PUBLISHED_AT,
    ).to_argument()
