"""A stage for engines whose tasks run on this machine: each is a shell that does as it is told."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pai_conformance import Stage


class PipedStage(Stage):
    """Each task is a shell that does what comes by its pipe, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pipes: dict[str, int] = {}

    def commands(self, roles: Mapping[str, int]) -> Sequence[str]:
        for role, count in roles.items():
            for index in range(count):
                path = self._folder / f"{role}-{index}"
                os.mkfifo(path)
                self._pipes[f"{role}/{index}"] = os.open(path, os.O_RDWR)
        name = "$PAI_CURRENT_TASK_ROLE_NAME-$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
        pipe = f'{shlex.quote(str(self._folder))}/"{name}"'
        return [f'while read -r line; do eval "$line"; done < {pipe}']

    def write(self, task: str, text: str) -> None:
        self._tell(task, f"echo {shlex.quote(text)}")

    def end(self, task: str, code: int) -> None:
        self._tell(task, f"exit {code}")

    def close(self) -> None:
        for pipe in self._pipes.values():
            os.close(pipe)

    def _tell(self, task: str, line: str) -> None:
        os.write(self._pipes[task], f"{line}\n".encode())
