"""The local engine passes the tests that every engine has to pass, with real tasks."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("pai_conformance")

from pai_conformance import Conformance, Stage  # noqa: E402 - rewritten, as above
from pai_runtime.engines.local.machine import LocalEngine  # noqa: E402 - as above


class LocalStage(Stage):
    """Each task is a shell that does what comes by its pipe."""

    options: Mapping[str, Any] = {"isolation": "none"}

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pipes: dict[str, int] = {}

    def opened(self) -> LocalEngine:
        return LocalEngine()

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


class TestLocalEngine(Conformance):
    @pytest.fixture
    def stage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
        monkeypatch.chdir(tmp_path)
        made = LocalStage(tmp_path)
        yield made
        made.close()
