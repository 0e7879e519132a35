"""The local engine: every task of a job as a process on this machine."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pai_runtime.engines.completion import Decision, decision
from pai_runtime.engines.placement import placement, ports_needed
from pai_runtime.engines.ports import END, FIRST, NoFreePorts, free_ports
from pai_runtime.engines.run_folder import CannotRun
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.task.exit_record import exit_record, write_whole
from pai_runtime.task.interpreter import python_argv
from pai_runtime.task.lifecycle import RUNTIME_ERROR, Outcome, Result
from pai_runtime.task.plan import Plan
from pai_runtime.task.stop import on_stop_signals

RUN_VERSION = 1


def not_given_here(job: Job) -> list[str]:
    """What the job asks for and this machine does not give its tasks; to be said, not to stop the run."""
    images = sorted(
        {str(job.prerequisites[role.docker_image].node.data["uri"]) for role in job.roles.values()}
    )
    gpus = max(role.gpu for role in job.roles.values())
    missing = [f"the docker image {', '.join(images)}: commands use the programs of this machine"]
    if gpus and not Path("/dev/nvidia0").exists():
        missing.append(f"GPUs: a task asks for {gpus}, and there is none")
    missing.append("limits of memory and CPU: tasks may use all of this machine")
    if job.retries or any(role.retries for role in job.roles.values()):
        missing.append("retries: every task runs once")
    return missing


@dataclass
class _Task:
    """A task that was started. `code` is None while it runs."""

    name: TaskName
    process: subprocess.Popen[bytes]
    code: int | None = None


class LocalRun:
    """One run of a job. Tasks run at once; the first decision of the completion policies ends the others.

    The first signal to stop ends the job in good order, the second at once.
    """

    def __init__(self, job: Job, folder: Path, say: Callable[[str], None]) -> None:
        self._job = job
        self._folder = folder
        self._say = say
        self._started = time.time()
        self._tasks: dict[int, _Task] = {}
        self._ended: dict[TaskName, int] = {}
        self._decision: Decision | None = None
        self._cancelled_by: int | None = None

    def place(self, user: str) -> Placement:
        """A placement with ports that are free now; raises `CannotRun`."""
        try:
            with free_ports(ports_needed(self._job), _somewhere()) as ports:
                return placement(self._job, self._folder.name, user, self._folder, ports)
        except (NoFreePorts, OSError) as error:
            raise CannotRun(str(error)) from None

    def run(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str], timeout: float | None) -> int:
        """Run all tasks to their end; the exit status of the job. Raises `CannotRun` before the first one."""
        on_stop_signals(self._cancel)
        for name, plan in plans.items():
            self._prepare(name, plan)
        self._write_run()
        for name in plans:
            self._start(name, secrets, timeout)
        while any(task.code is None for task in self._tasks.values()):
            self._reap()
        self._write_run()
        if self._decision is not None:
            return self._decision.code
        return 128 + (self._cancelled_by or 0)

    @property
    def failed_task(self) -> TaskName | None:
        """The task that failed the job."""
        return self._decision.failed_task if self._decision else None

    def task_folder(self, name: TaskName) -> Path:
        """Where a task's plan, logs and record are."""
        return self._folder / name[0] / str(name[1])

    def _prepare(self, name: TaskName, plan: Plan) -> None:
        folder = self.task_folder(name)
        try:
            (folder / "work").mkdir(parents=True)
            write_whole(folder / "plan.json", json.dumps(plan.to_json(), ensure_ascii=False) + "\n")
        except OSError as error:
            message = f"the folder of a task cannot be written: {error.filename or folder}: {error.strerror}"
            raise CannotRun(message) from None

    def _start(self, name: TaskName, secrets: Mapping[str, str], timeout: float | None) -> None:
        if self._stopping():
            return
        args = [str(self.task_folder(name)), f"--parent={os.getpid()}"]
        if timeout is not None:
            args.append(f"--timeout={timeout}")
        if sum(role.instances for role in self._job.roles.values()) > 1:
            args.append(f"--prefix={name[0]}/{name[1]} | ")
        try:
            if secrets:  # at the last moment: the supervisor removes them as soon as it has read them
                self._hand_over(secrets, self.task_folder(name) / "secrets.json")
            process = subprocess.Popen(
                python_argv("pai_runtime.task.__main__", *args),
                env=_task_environment(),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._say(f"the task {_task_name(name)} cannot be started: {error.strerror}")
            self._decide(Decision(RUNTIME_ERROR, name))
            return
        self._tasks[process.pid] = _Task(name, process)
        if self._stopping():  # told so before the task was in the list
            os.kill(process.pid, signal.SIGTERM)

    def _hand_over(self, secrets: Mapping[str, str], path: Path) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(secrets, file)

    def _stopping(self) -> bool:
        return self._cancelled_by is not None or self._decision is not None

    def _reap(self) -> None:
        """Wait for the next task to end, and see what that decides."""
        pid, status = os.wait()
        task = self._tasks.get(pid)
        if task is None:
            return
        code = os.waitstatus_to_exitcode(status)
        task.code = task.process.returncode = code if code >= 0 else 128 - code
        self._leave_record(task)
        if not self._stopping():
            self._ended[task.name] = task.code
            if decided := decision(self._job.roles, self._ended):
                self._decide(decided)
        self._write_run()

    def _decide(self, decided: Decision) -> None:
        self._decision = decided
        self._signal_all(signal.SIGTERM)

    def _leave_record(self, task: _Task) -> None:
        """For a supervisor that was killed, or told to stop before it could listen: do its last duties."""
        folder = self.task_folder(task.name)
        (folder / "secrets.json").unlink(missing_ok=True)
        if not (folder / "exit.yaml").exists() and task.code is not None:
            outcome: Outcome = "cancelled" if self._stopping() else "failed"
            message = "the supervisor of the task was ended before it could say how the task went"
            record = exit_record(Result(outcome, task.code, "init", message=message))
            with contextlib.suppress(OSError):
                write_whole(folder / "exit.yaml", record)

    def _cancel(self, number: int, _frame: FrameType | None) -> None:
        if self._cancelled_by is None:
            self._cancelled_by = number
            self._say("stopping; once more to stop at once")
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: int) -> None:
        for task in self._tasks.values():
            if task.code is None:  # not through Popen, which would take its status from us
                os.kill(task.process.pid, number)

    def _write_run(self) -> None:
        document: dict[str, Any] = {
            "runVersion": RUN_VERSION,
            "job": self._job.name,
            "file": str(Path(self._job.document.file).absolute()),
            "started": _timestamp(self._started),
            "tasks": [
                {"role": task.name[0], "index": task.name[1], "exitCode": task.code}
                for task in self._tasks.values()
            ],
        }
        if all(task.code is not None for task in self._tasks.values()) and self._tasks:
            document["ended"] = _timestamp(time.time())
            document["outcome"] = self._outcome()
            if self.failed_task:
                document["failedTask"] = _task_name(self.failed_task)
        try:
            write_whole(self._folder / "run.json", json.dumps(document, indent=2) + "\n")
        except OSError as error:
            self._say(f"{self._folder / 'run.json'} cannot be written: {error.strerror}")

    def _outcome(self) -> str:
        if self._decision is None:
            return "cancelled"
        return "failed" if self._decision.code else "succeeded"


def _task_name(name: TaskName) -> str:
    return f"{name[0]}/{name[1]}"


def _task_environment() -> dict[str, str]:
    """This process's environment without what another job's runtime, or ours, has set in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PAI_", "FC_"))}


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _somewhere() -> int:
    """A port to begin at, so that runs side by side seldom want the same ones."""
    return FIRST + os.getpid() * 131 % (END - FIRST)


def say(text: str) -> None:
    """A message to the person who runs the job; standard output belongs to the job."""
    sys.stderr.write(f"pai-runtime: {text}\n")
    sys.stderr.flush()
