"""The local engine: every task of a job as processes on this machine."""

import contextlib
import fcntl
import json
import os
import select
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType

from pai_runtime.engines.engine import RunRequest
from pai_runtime.engines.local.framework_controller import Attempt
from pai_runtime.engines.local.launcher import Launcher
from pai_runtime.engines.local.options import LocalOptions
from pai_runtime.engines.local.placement import placement, ports_needed
from pai_runtime.engines.local.ports import NoFreePorts, free_ports
from pai_runtime.engines.local.preparation import Preparation
from pai_runtime.engines.local.task import LAYERS, LocalTask, shared_text
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.runs.cannot_run import CannotRun
from pai_runtime.runs.completion import Decision, decision
from pai_runtime.runs.events import RunEvents
from pai_runtime.runs.first_failure import first_failure
from pai_runtime.runs.state import RUN, Run, RunOutcome
from pai_runtime.supervisor.process_tree import adopt_orphans, keep_to_ourselves, kill_children
from pai_runtime.supervisor.stop import on_stop_signals
from pai_runtime.supervisor.wake_pipe import WakePipe
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import SHARED
from pai_runtime.task.outcome import RUNTIME_ERROR
from pai_runtime.task.plan import Plan

_SHOW_EVERY = 0.25
_GONE_EVERY = 0.01
_GONE_WITHIN = 10.0


def _not_given_here(job: Job) -> list[str]:
    """What the job asks for and this machine does not give its tasks; to be said, not to stop the run."""
    names = ", ".join(job.docker_images())
    gpus = max(role.gpu for role in job.roles.values())
    missing = [
        (
            "docker images are not used in local runs; "
            f"commands use this machine's programs, not those of {names}"
        )
    ]
    if gpus and not Path("/dev/nvidia0").exists():
        missing.append(f"this machine has no GPU, but a task requests {gpus}")
    missing.append("memory and CPU are not limited in local runs; tasks may use all of this machine")
    return missing


class LocalRun:
    """One run of a job. Tasks run at once; the first decision of the completion policies ends the others.

    A task that fails is tried again ``taskRetryCount`` times if the job's tasks need not live together, and
    a job that fails ``jobRetryCount`` times, from its beginning. The first signal to stop ends the job in
    good order, the second at once.
    """

    def __init__(self, job: Job, wanted: RunRequest, options: LocalOptions) -> None:
        self._job = job
        self._user = wanted.user
        self._folder = Folder.at(wanted.folder)
        self._options = options
        self._view = wanted.view
        self._events = RunEvents(self._folder)
        self._started = time.time()
        self._deadline = time.monotonic() + wanted.timeout if wanted.timeout is not None else None
        self._tasks: dict[TaskName, LocalTask] = {}
        self._running: dict[int, LocalTask] = {}
        self._killed: dict[LocalTask, tuple[int, float]] = {}  # wait status, and until when (monotonic)
        self._ended: dict[TaskName, int] = {}
        self._retries = 0
        self._decision: Decision | None = None
        self._cancelled_by: int | None = None
        self._ended_at: float | None = None
        self._changed = True
        self._write_at = 0.0
        self._launcher = Launcher()

    def place(self) -> Placement:
        """A placement with ports that are free now; raises `CannotRun`."""
        try:
            ports = free_ports(ports_needed(self._job))
        except (NoFreePorts, OSError) as error:
            raise CannotRun(str(error)) from None
        path = self._folder.path
        places = placement(self._job, path.name, self._user, path, ports)
        return replace(places, storages=frozenset(self._options.storages))

    def prepare(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> None:
        """Make all that the tasks need; raises `CannotRun`."""
        self._launcher.start()  # it gets ready meanwhile
        for missing in _not_given_here(self._job):
            self._view.say(f"note: {missing}")
        preparation = Preparation(self._job, self._folder, self._options, self._view)
        settings = preparation.settings(plans, secrets, self._launcher)
        self._write_shared(next(iter(plans.values())))
        for (role, index), plan in plans.items():
            framework = self._folder.path.name
            self._tasks[role, index] = task = LocalTask(plan, framework, self._folder, settings)
            try:
                task.prepare()
            except OSError as error:
                message = "cannot write the directory of a task"
                where = error.filename or self._folder.path / task.label
                raise CannotRun(f"{message}: {where}: {error.strerror}") from None

    def _write_shared(self, plan: Plan) -> None:
        try:
            self._folder.write(SHARED, shared_text(plan), sync=False)
        except OSError as error:
            message = f"cannot write the directory of the run: {error.filename}: {error.strerror}"
            raise CannotRun(message) from None

    def run(self) -> tuple[Run, int]:
        """Run all tasks to their end; the run as it was then, and the exit status of the job."""
        adopt_orphans()  # of a supervisor that is killed
        keep_to_ourselves()
        with _lock(self._folder), contextlib.closing(WakePipe()) as wake:
            on_stop_signals(self._cancel)
            while True:
                for task in self._tasks.values():
                    self._start(task)
                    self._turn(wake, 0)
                while self._running or self._killed:
                    self._turn(wake, _SHOW_EVERY)
                self._blame()
                if not self._begin_again():
                    break
            self._launcher.close()
            with contextlib.suppress(OSError):
                self._folder.remove_if_empty(LAYERS)
            self._ended_at = time.time()
            self._events.ended(self._as_run(), self._cancelled_by)
            self._changed = True
            self._show()
            self._view.end()
        code = self._decision.code if self._decision is not None else 128 + (self._cancelled_by or 0)
        return self._as_run(), code

    def _blame(self) -> None:
        """Of the tasks that have failed, name the one that was first, with its code."""
        if self._decision and self._decision.failed_task:
            records = {name: task.record() for name, task in self._tasks.items() if task.code}
            first = first_failure(records, self._decision.failed_task)
            self._decision = Decision(self._tasks[first].code or self._decision.code, first)

    def _start(self, task: LocalTask) -> None:
        if self._is_stopping():
            task.stop()
            return
        left = max(self._deadline - time.monotonic(), 0) if self._deadline is not None else None
        try:
            self._running[task.start(left)] = task
        except OSError as error:
            self._view.say(f"cannot start task {task.label}: {error.strerror}")
            task.cannot_start(RUNTIME_ERROR)
            self._decide(Decision(RUNTIME_ERROR, task.name))
        self._changed = True
        if self._is_stopping():  # told so before the task was running
            task.stop()

    def _is_stopping(self) -> bool:
        return self._cancelled_by is not None or self._decision is not None

    def _turn(self, wake: WakePipe, most: float) -> None:
        """Wait for tasks to end, for `most` seconds; see what that decides, and show it."""
        woken = select.poll()
        woken.register(wake.fd, select.POLLIN)
        woken.poll((min(most, _GONE_EVERY) if self._killed else most) * 1000)
        for task in self._running.values():
            task.end_if_overdue()
        wake.clear()
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._reap(*ended)
        self._end_killed()
        self._show()

    def _reap(self, pid: int, status: int) -> None:
        task = self._running.pop(pid, None)
        if task is None:
            return
        task.forget_process()
        if os.WIFSIGNALED(status):
            self._killed[task] = status, time.monotonic() + _GONE_WITHIN
        else:
            self._has_ended(task, status)

    def _end_killed(self) -> None:
        """End the tasks whose supervisor was killed, once nothing is left of what it would have ended.

        These processes come to us, and what they leave comes to us in turn.
        """
        if not self._killed:
            return
        left = kill_children(but={*self._running, self._launcher.pid or 0})
        for task, (status, until) in list(self._killed.items()):
            if not left or time.monotonic() >= until:
                del self._killed[task]
                self._has_ended(task, status)

    def _has_ended(self, task: LocalTask, status: int) -> None:
        self._changed = True
        stopping = self._is_stopping()
        code = task.has_ended(status, stopped=stopping)
        if self._decision is not None or task.state == "stopped":
            return
        if code and not stopping and self._may_try_again(task):
            number, of = task.attempt.of_task + 1, self._job.roles[task.name[0]].retries
            self._view.say(f"{_failure(task)}; retrying it ({number} of {of})")
            if self._try_again(task, code):
                return
        self._ended[task.name] = code
        if decided := decision(self._job.roles, self._ended):
            self._decide(decided)

    def _may_try_again(self, task: LocalTask) -> bool:
        retries = 0 if self._job.gang else self._job.roles[task.name[0]].retries
        return task.attempt.of_task < retries and self._has_time()

    def _has_time(self) -> bool:
        return self._deadline is None or time.monotonic() < self._deadline

    def _try_again(self, task: LocalTask, code: int) -> bool:
        try:
            task.begin_again(Attempt(self._retries, task.attempt.of_task + 1))
        except OSError as error:
            folder = error.filename or task.label
            self._view.say(f"cannot retry task {task.label}: {folder}: {error.strerror}")
            return False
        self._events.task_restarted(task.label, task.attempt.of_task, code)
        self._start(task)
        return True

    def _begin_again(self) -> bool:
        """Make ready for another attempt of the whole job, if it failed and may have one."""
        decided = self._decision
        if decided is None or decided.failed_task is None or self._cancelled_by is not None:
            return False
        if self._retries == self._job.retries or not self._has_time():
            return False
        self._retries += 1
        why = _failure(self._tasks[decided.failed_task])
        self._view.say(f"{why}; restarting the job ({self._retries} of {self._job.retries})")
        try:
            for task in self._tasks.values():
                task.begin_again(Attempt(self._retries))
        except OSError as error:
            folder = error.filename or self._folder.path
            self._view.say(f"cannot restart the job: {folder}: {error.strerror}")
            return False
        self._events.job_restarted(self._retries, self._tasks[decided.failed_task].label, decided.code)
        self._decision = None
        self._ended.clear()
        self._changed = True
        return True

    def _decide(self, decided: Decision) -> None:
        self._decision = decided
        failed = decided.failed_task
        self._events.decided(decided.code, self._tasks[failed].label if failed else None)
        self._stop_all()

    def _cancel(self, number: int, _frame: FrameType | None) -> None:
        if self._cancelled_by is None:
            self._cancelled_by = number
            self._view.say("stopping; press Ctrl-C again to kill all tasks now")
        self._stop_all()

    def _stop_all(self) -> None:
        for task in self._tasks.values():
            task.stop()

    def _show(self) -> None:
        run = self._as_run()
        if self._changed and (run.ended is not None or time.monotonic() >= self._write_at):
            self._changed = False
            self._write_at = time.monotonic() + _SHOW_EVERY  # each time it is all of the tasks
            try:
                text = json.dumps(run.to_json()) + "\n"
                self._folder.write(RUN, text, sync=run.ended is not None)
            except OSError as error:
                self._view.say(f"cannot write {error.filename}: {error.strerror}")
        self._view.show(run)

    def _as_run(self) -> Run:
        """How the run stands."""
        failed = self._decision.failed_task if self._decision and self._ended_at else None
        return Run(
            job=self._job.name,
            engine="local",
            file=str(Path(self._job.file).absolute()),
            started=self._started,
            retries=self._retries,
            tasks=tuple(task.as_run_task() for task in self._tasks.values()),
            ended=self._ended_at,
            outcome=self._outcome() if self._ended_at else None,
            failed_task=self._tasks[failed].label if failed else None,
        )

    def _outcome(self) -> RunOutcome:
        if self._decision is None:
            return "cancelled"
        return "failed" if self._decision.code else "succeeded"


def _failure(task: LocalTask) -> str:
    record = task.record()
    message = str(record.get("message", f"exit code {task.code}"))
    if "phrase" in record:
        message += f" ({record['phrase']})"
    return f"task {task.label} failed: {message}"


@contextlib.contextmanager
def _lock(folder: Folder) -> Iterator[None]:
    """Hold a lock on the folder of a run: whoever looks at it sees by that whether its engine lives."""
    fd = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
    try:
        with contextlib.suppress(OSError):  # a file system without locks; those who look see less
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
