"""The folder of a run, played: written as an engine and the supervisors of its tasks would write it."""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.run_lock import lock
from pai_runtime.runs.state import Run, read_run
from pai_task.folder import Folder
from pai_task.launch import Rotation
from pai_task.layout import USER_LOG, USER_LOG_TIMES
from pai_task.log_file import LogFile, TimedLogFile


def timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class PlayedRun:
    """A run of the job ``demo`` with so many waiting tasks of each role. It began a minute ago."""

    def __init__(self, folder: Path, /, rotation: Rotation | None = None, **roles: int) -> None:
        self.folder = folder
        self._rotation = rotation or Rotation()
        self._logs: dict[str, LogFile] = {}
        self._started = time.time() - 60
        tasks = [(role, index) for role, count in roles.items() for index in range(count)]
        self.document: dict[str, Any] = {
            "runVersion": 1,
            "job": "demo",
            "engine": "local",
            "file": "/somewhere/job.yaml",
            "started": timestamp(self._started),
            "retries": 0,
            "tasks": [
                {
                    "role": role,
                    "index": index,
                    "state": "waiting",
                    "exitCode": None,
                    "retries": 0,
                    "started": None,
                    "ended": None,
                }
                for role, index in tasks
            ],
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.write()

    def write(self) -> None:
        (self.folder / "run.json").write_text(json.dumps(self.document), "utf-8")

    @property
    def run(self) -> Run:
        run = read_run(self.folder)
        assert isinstance(run, Run)
        return run

    @property
    def reader(self) -> LocalRunReader:
        return LocalRunReader(self.folder)

    def task_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def set(self, name: str, state: str, **fields: Any) -> None:
        """A task changes its state."""
        self._set(name, state, fields)
        self.write()

    def _set(self, name: str, state: str, fields: dict[str, Any]) -> None:
        role, _, index = name.partition("/")
        task = next(
            each for each in self.document["tasks"] if (each["role"], each["index"]) == (role, int(index))
        )
        times = {"started": task["started"] or timestamp(self._started)}
        if state not in ("waiting", "running"):
            times["ended"] = timestamp(self._started + 30)
        task.update({"state": state, **times, **fields})

    def all(self, state: str, **fields: Any) -> None:
        """All tasks change their state."""
        for task in list(self.document["tasks"]):
            self._set(f"{task['role']}/{task['index']}", state, fields)
        self.write()

    def retry_job(self, number: int) -> None:
        self.document["retries"] = number
        self.write()

    def progress(self, name: str, phase: str, use: str | None = None, ago: float = 0, **fields: Any) -> None:
        """The supervisor of a task writes what it does since `ago` seconds."""
        document = {
            "stateVersion": 1,
            "phase": phase,
            "use": use,
            "since": time.time() - ago,
            "heldUntil": None,
            "release": None,
            "pid": 1,
            "addresses": {},
            **fields,
        }
        (self.task_folder(name) / "state.json").write_text(json.dumps(document), "utf-8")

    def output_at(self, moment: float, name: str, data: bytes) -> None:
        """A task writes at this time of the day on which Unix time began, which the supervisor notes."""
        task = self.task_folder(name)
        if name not in self._logs:
            self._logs[name] = TimedLogFile(Folder.at(task), USER_LOG, USER_LOG_TIMES, self._rotation)
        with patch("time.time", return_value=moment):
            self._logs[name].write(data)

    def output(self, name: str, data: bytes, log: str = "user-all/current") -> None:
        """A task writes to its log, which is rotated as the supervisor does it."""
        path = self.task_folder(name) / "logs" / log
        if str(path) not in self._logs:
            self._logs[str(path)] = LogFile(Folder.at(self.task_folder(name)), f"logs/{log}", self._rotation)
        self._logs[str(path)].write(data)

    def new_attempt(self, name: str, record: str) -> None:
        """The files of a task that has failed go to its attempts."""
        folder = self.task_folder(name)
        (folder / "attempts").mkdir(exist_ok=True)
        attempt = folder / "attempts" / str(len(list((folder / "attempts").iterdir())))
        attempt.mkdir()
        (folder / "logs").rename(attempt / "logs")
        (attempt / "exit.yaml").write_text(record, "utf-8")
        self._logs.clear()

    def end(self, outcome: str, failed_task: str | None = None) -> None:
        self.document |= {"ended": timestamp(self._started + 45), "outcome": outcome}
        if failed_task:
            self.document["failedTask"] = failed_task
        self.write()

    @contextmanager
    def engine(self) -> Generator[None, None, None]:
        """What shows that its engine lives."""
        with Folder.at(self.folder) as folder:
            fd = lock(folder)
        try:
            yield
        finally:
            os.close(fd)
