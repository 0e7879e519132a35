"""One task of a local run: its folder, its process, and its attempts, one after the other."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pai_runtime.engines import isolation
from pai_runtime.engines.run_state import RunTask, TaskStatus, read_exit_record
from pai_runtime.plan.environment import Attempt, TaskName, of_attempt
from pai_runtime.task.exit_record import exit_record, write_whole
from pai_runtime.task.interpreter import python_argv
from pai_runtime.task.lifecycle import Outcome, Result
from pai_runtime.task.plan import PRIVATE, Plan

LAYERS = ".layers"
"""The folder in that of a run with what the kernel needs while tasks are isolated."""
_ATTEMPTS = "attempts"


@dataclass(frozen=True)
class Way:
    """How the tasks of a run are run.

    `environment` is what all of them begin with. `binds` None: not isolated. With `shown_elsewhere` a task's
    output goes to its logs only; `prefixed`: each line that is passed on says whose it is.
    """

    secrets: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    prefixed: bool
    shown_elsewhere: bool
    binds: Mapping[TaskName, Sequence[isolation.Bind]] | None


class LocalTask:
    """One task of a run called `framework`, in the run's folder."""

    def __init__(self, plan: Plan, framework: str, run: Path, way: Way) -> None:
        self.name: TaskName = (plan.role, plan.index)
        self.folder = run / plan.role / str(plan.index)
        self._layers = run / LAYERS / f"{plan.role}-{plan.index}"
        self.retries = 0
        self.attempt = Attempt()
        self.state: TaskStatus = "waiting"
        self.code: int | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._plan = plan
        self._framework = framework
        self._way = way
        self._started: float | None = None
        self._ended: float | None = None

    def as_run_task(self) -> RunTask:
        """What ``run.json`` says of it."""
        started, ended = self._started, self._ended
        return RunTask(*self.name, self.state, self.code, self.retries, started, ended)

    def prepare(self) -> None:
        """Write what the supervisor needs; raises OSError."""
        self._write(self.folder, self.attempt)

    def begin_again(self, attempt: Attempt) -> None:
        """Set aside what the last attempt left, and make ready for the next; raises OSError."""
        kept = self.folder / _ATTEMPTS / str(self.retries)
        fresh = self.folder / _ATTEMPTS / "next"
        shutil.rmtree(fresh, ignore_errors=True)  # half of it, where an earlier try has failed
        self._write(fresh, attempt)  # first, so that a full disk leaves the last attempt as it was
        kept.mkdir()
        for path in self.folder.iterdir():
            if path.name != _ATTEMPTS:
                path.rename(kept / path.name)
        for path in fresh.iterdir():
            path.rename(self.folder / path.name)
        fresh.rmdir()
        self.retries += 1
        self.attempt = attempt
        self.state, self.code, self._started, self._ended = "waiting", None, None, None

    def _write(self, folder: Path, attempt: Attempt) -> None:
        (folder / "work").mkdir(parents=True)
        plan = of_attempt(self._plan, self._framework, attempt)
        text = json.dumps(plan.to_json(), ensure_ascii=False) + "\n"
        write_whole(folder / "plan.json", text, sync=False)

    def start(self, seconds: float | None) -> int:
        """Start the supervisor, with a time limit; its process id. Raises OSError."""
        args = [str(self.folder), f"--parent={os.getpid()}"]
        if seconds is not None:
            args.append(f"--timeout={seconds}")
        if self._way.prefixed:
            args.append(f"--prefix={self.label} | ")
        if self._way.secrets:  # at the last moment: the supervisor removes them as soon as it has read them
            self._hand_over_secrets()
        output = subprocess.DEVNULL if self._way.shown_elsewhere else None
        self.process = subprocess.Popen(
            self._argv(args),
            env=self._way.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self.state, self._started = "running", time.time()
        return self.process.pid

    def has_ended(self, status: int, *, stopped: bool) -> int:
        """Its process has this wait status; the task's exit code. `stopped`: it was told to end.

        One that had ended by itself before that, and only lingered, has succeeded or failed all the same.
        """
        code = os.waitstatus_to_exitcode(status)
        self.code = code if code >= 0 else 128 - code
        self._ended = time.time()
        by_itself = not stopped or self._had_ended(self.code)
        self.state = "stopped" if not by_itself else "failed" if self.code else "succeeded"
        if self.process:
            self.process.returncode = self.code
        self._leave_record(self.code)
        if self._way.binds is not None:
            isolation.clean_up(self.folder, self._layers)
        return self.code

    def cannot_start(self, code: int) -> None:
        """The supervisor could not be started."""
        self.state, self.code, self._ended = "failed", code, time.time()

    def stop(self) -> None:
        """Tell it to end, or never to begin."""
        if self.state == "running" and self.process:
            for number in (signal.SIGTERM, signal.SIGCONT):  # also if somebody has stopped it
                with contextlib.suppress(ProcessLookupError):
                    # Not through Popen, which would take its status from us.
                    os.kill(self.process.pid, number)
        elif self.state == "waiting":
            self.state = "stopped"

    @property
    def label(self) -> str:
        """The task as people write it."""
        return f"{self.name[0]}/{self.name[1]}"

    def _had_ended(self, code: int) -> bool:
        """Whether a task that was told to end had a result by then."""
        if code == 128 + signal.SIGTERM:  # as most, and reading all of their records takes time
            return False
        record = read_exit_record(self.folder)
        return record.get("exitCode") == code and record.get("outcome") != "cancelled"

    def _argv(self, args: list[str]) -> list[str]:
        if self._way.binds is None:
            return python_argv("pai_runtime.task.__main__", *args)
        argument = isolation.argument(self.folder, self._layers, self._way.binds[self.name])
        return python_argv("pai_runtime.engines.isolation", argument, *args)

    def _hand_over_secrets(self) -> None:
        fd = os.open(self.folder / "secrets.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(dict(self._way.secrets), file)

    def _leave_record(self, code: int) -> None:
        """For a supervisor that was killed, or told to stop before it could listen: do its last duties."""
        (self.folder / "secrets.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder / PRIVATE, ignore_errors=True)
        for reserved in self.folder.glob(".exit.yaml.*"):
            reserved.unlink(missing_ok=True)
        if not (self.folder / "exit.yaml").exists():
            outcome: Outcome = "cancelled" if self.state == "stopped" else "failed"
            message = "the supervisor of the task was ended before it could say how the task went"
            record = exit_record(Result(outcome, code, "init", message=message))
            with contextlib.suppress(OSError):
                write_whole(self.folder / "exit.yaml", record)
