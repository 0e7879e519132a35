"""The local engine, which runs every task of a job as processes on this machine."""

import contextlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pai_document.problems import listed
from pai_runtime.definitions import RESOLVED
from pai_runtime.engines.local.code_copy import COPY, copy_code
from pai_runtime.engines.local.placement import named_ports, ports_needed
from pai_runtime.engines.local.ports import NoFreePorts, free_ports, taken_ports
from pai_runtime.engines.local.processes import Processes
from pai_runtime.engines.local.request import LocalRequest
from pai_runtime.engines.local.run_record import RunRecord
from pai_runtime.engines.local.site import Site
from pai_runtime.engines.local.supervisors import Supervisors
from pai_runtime.engines.local.task import LAYERS, LocalTask, shared_text
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.runs.completion import Decision, decision, first_failure, roles_of
from pai_runtime.runs.errors import CannotRun
from pai_runtime.runs.events import RunEvents
from pai_runtime.runs.provenance import PROVENANCE, with_plugins
from pai_runtime.runs.retries import Retries
from pai_runtime.runs.state import LOCAL, Run, RunOutcome
from pai_task.exit_codes import RUNTIME_ERROR
from pai_task.folder import Folder
from pai_task.layout import SHARED
from pai_task.own_process import keep_to_ourselves
from pai_task.plan import Plan
from pai_task.record import replace
from pai_task.supervisor.process_tree import adopt_orphans
from pai_task.supervisor.wake_pipe import WakePipe

MakeSite = Callable[[Job, Folder, LocalRequest], Site]

_STARTING = 0.1
"""Seconds for which tasks are started before anything else: what follows looks at all tasks."""

_TELLING = 60.0
"""Timeout in seconds for all hooks for the end of the run."""


class LocalRun:
    """One run of a job: its tasks run concurrently; the first decision about the job ends the others.

    A task that fails is retried ``taskRetryCount`` times if the job's tasks need not start together, and a
    job that fails ``jobRetryCount`` times, from its start. It is made by `place`, `check` and `prepare`, and
    runs while somebody calls `turn`; `now` is its state then. The first `cancel` ends the job gracefully, the
    second one at once.
    """

    def __init__(self, job: Job, wanted: LocalRequest, site: MakeSite = Processes) -> None:
        self._job = job
        self._folder = Folder.at(wanted.folder)
        self._wanted = wanted
        self._say = wanted.say
        self._events = RunEvents(self._folder)
        self._started = time.time()
        self._ended_at: float | None = None
        self._deadline = time.monotonic() + (math.inf if wanted.timeout is None else wanted.timeout)
        self._site = site(job, self._folder, wanted)
        self._supervisors = Supervisors(self._site)
        self._retries = Retries(job, self._deadline, self._events, self._say, wanted.earlier_attempts)
        self._record = RunRecord(self._folder, self._say)
        self._roles: Mapping[str, TaskRole] = {}
        self._tasks: dict[TaskName, LocalTask] = {}
        self._to_start: deque[LocalTask] = deque()
        self._wake: WakePipe | None = None
        self._ended: dict[TaskName, int] = {}
        self._decision: Decision | None = None
        self._cancelled_by: int | None = None
        self._cancelled_at: float | None = None
        self.now = self._as_run()

    def place(self) -> Placement:
        """Return a placement with ports that are free now. Raises `CannotRun`."""
        named, only = named_ports(self._job), self._site.only
        if taken := taken_ports(named_ports(self._job, only)):
            ports = listed([f"{port} ({named[port]})" for port in taken])
            raise CannotRun(f"ports that the job names are in use on this machine, or reserved: {ports}")
        try:
            free = free_ports(ports_needed(self._job, only), named)
        except (NoFreePorts, OSError) as error:
            raise CannotRun(str(error)) from None
        return replace(self._site.placement(free), storages=frozenset(self._wanted.storages))

    def check(self, plans: Mapping[TaskName, Plan]) -> None:
        """Check that there is what the tasks need. Raises `CannotRun`."""
        self._site.check(plans)

    def discard(self) -> None:
        """End what was begun for a run that is not prepared."""
        self._site.close()
        self._folder.close()

    def prepare(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> None:
        """Create all that the tasks need, or nothing. Raises `CannotRun`."""
        try:
            self._prepare(plans, secrets)
        except BaseException:
            with contextlib.suppress(OSError):
                for name in self._folder.names():
                    self._folder.remove(name)
            raise

    def _prepare(self, plans: Mapping[TaskName, Plan], secrets: Mapping[str, str]) -> None:
        self._write_run(list(plans.values()))
        settings = self._site.settings(plans, secrets)
        self._copy_code()
        self._roles = roles_of(self._job.roles, plans)
        for (role, index), plan in plans.items():
            framework = self._folder.path.name
            self._tasks[role, index] = task = LocalTask(plan, framework, self._folder, settings)
            task.attempt = self._retries.attempt()
            try:
                task.prepare()
            except OSError as error:
                message = "cannot write the directory of a task"
                where = error.filename or self._folder.path / task.label
                raise CannotRun(f"{message}: {where}: {error.strerror}") from None
        self._to_start.extend(self._tasks.values())
        self.now = self._as_run()

    def _copy_code(self) -> None:
        if self._wanted.code is None:
            return
        try:
            with self._folder.folder(COPY, make=True) as copy:
                copy_code(self._wanted.code, copy)
        except OSError as error:
            raise CannotRun(f"cannot copy the code: {error.filename}: {error.strerror}") from None

    def _write_run(self, plans: Sequence[Plan]) -> None:
        """Write first what identifies the run, in case it is killed before its tasks are created."""
        try:
            self._record.write(self._as_run())
            self._folder.write(SHARED, shared_text(plans[0]), sync=False)
            if self._wanted.provenance:
                text = json.dumps(with_plugins(self._wanted.provenance, plans), indent=1)
                self._folder.write(PROVENANCE, f"{text}\n", sync=False)
            if self._wanted.definitions:
                self._folder.write(RESOLVED, self._wanted.definitions, sync=False)
        except OSError as error:
            message = f"cannot write the directory of the run: {error.filename}: {error.strerror}"
            raise CannotRun(message) from None

    def turn(self, seconds: float) -> None:
        """Start tasks if any are left to be started; else wait for tasks to end, for at most `seconds`.

        What the ends decide is done at once. Does nothing once the run is over.
        """
        if self._wake is None:
            self._begin()
        if self._wake is None or self._ended_at is not None:
            return
        until = time.monotonic() + _STARTING
        while self._to_start and time.monotonic() < until:
            self._start(self._to_start.popleft())
            seconds = 0
        for task, status in self._supervisors.wait(self._wake, seconds):
            self._has_ended(task, status)
        if not (self._to_start or self._supervisors):
            self._blame()
            if self._is_retried():
                self._to_start.extend(self._tasks.values())
            else:
                self._end()
        self.now = self._as_run()
        self._record.show(self.now)

    def _begin(self) -> None:
        adopt_orphans()  # of a supervisor that is killed
        keep_to_ourselves()
        self._wake = WakePipe()

    def _end(self) -> None:
        self._site.close()
        with contextlib.suppress(OSError):
            self._folder.remove_if_empty(LAYERS)
        self._ended_at = time.time()
        self._events.ended(self._as_run(), self._cancelled_by)
        self._record.changed()
        self._record.show(self._as_run())  # before what may take long
        if self._site.only is None:  # the end of one element of an array is not that of the job
            self.tell_end()

    def tell_end(self, *, has_succeeded: bool | None = None) -> None:
        """Call the hooks for the end of the run: of the task that failed it, or of each use's first task.

        For a run of one task that has decided a job of many, `has_succeeded` is what became of that. A signal
        ends the calls.
        """
        outcome, failed = self._outcome(), self._decision and self._decision.failed_task
        if has_succeeded is None:
            if outcome == "cancelled":
                return
            has_succeeded = outcome == "succeeded"
        tasks = [self._tasks[failed]] if failed and not has_succeeded else list(self._tasks.values())
        until, before = time.monotonic() + _TELLING, self._cancelled_by

        def is_late() -> bool:
            return time.monotonic() > until or self._cancelled_by != before

        for task in tasks:
            task.end_run(self._say, is_late, has_succeeded=has_succeeded, alone=len(tasks) == 1)

    def close(self) -> None:
        """Release what the running needed."""
        if self._wake is not None:
            self._wake.close()

    def _start(self, task: LocalTask) -> None:
        if self._is_stopping():
            task.stop()
            return
        left = max(self._deadline - time.monotonic(), 0) if self._deadline < math.inf else None
        try:
            self._supervisors.start(task, left)
        except OSError as error:
            self._say(f"cannot start task {task.label}: {error.strerror}")
            task.cannot_start(RUNTIME_ERROR)
            self._decide(Decision(RUNTIME_ERROR, task.name))
        self._record.changed()
        if self._is_stopping():  # told so before the task was running
            task.stop()

    def _has_ended(self, task: LocalTask, status: int) -> None:
        self._record.changed()
        stopping = self._is_stopping()
        code = task.has_ended(status, stopped=stopping, cancelled_at=self._cancelled_at)
        if self._decision is not None or task.state == "stopped":
            return
        if code and not stopping and self._retries.retry_task(task, code):
            self._start(task)
            return
        self._ended[task.name] = code
        if decided := decision(self._roles, self._ended):
            self._decide(decided)

    def _decide(self, decided: Decision) -> None:
        self._decision = decided
        failed = decided.failed_task
        self._events.decided(decided.code, self._tasks[failed].label if failed else None)
        self._stop_all()

    def _blame(self) -> None:
        """Set the failed task of the decision to the one that failed first, with its exit code."""
        if self._decision and self._decision.failed_task:
            records = {name: task.record() for name, task in self._tasks.items() if task.code}
            first = first_failure(records, self._decision.failed_task)
            self._decision = Decision(self._tasks[first].code or self._decision.code, first)

    def _is_retried(self) -> bool:
        """Prepare another attempt of a failed job if it is to be retried; return whether it is."""
        decided = self._decision
        if decided is None or decided.failed_task is None or self._cancelled_by is not None:
            return False
        failed = self._tasks[decided.failed_task]
        if not self._retries.retry_job(self._tasks.values(), failed, decided.code):
            return False
        self._decision = None
        self._ended.clear()
        self._record.changed()
        return True

    def _is_stopping(self) -> bool:
        return self._cancelled_by is not None or self._decision is not None

    def cancel(self, number: int) -> None:
        """Stop all tasks because of a signal, gracefully; at once if it is not the first."""
        is_second = self._cancelled_by is not None
        if not is_second:
            self._cancelled_by, self._cancelled_at = number, time.time()
            self._site.cancelled(number)
        self._stop_all(at_once=is_second)

    def _stop_all(self, *, at_once: bool = False) -> None:
        for task in self._tasks.values():
            task.stop(at_once=at_once)

    def _as_run(self) -> Run:
        """Return the current state of the run."""
        failed = self._decision.failed_task if self._decision and self._ended_at else None
        return Run(
            job=self._job.name,
            engine=LOCAL,
            file=str(Path(self._job.file).absolute()),
            started=self._started,
            retries=self._retries.of_job,
            tasks=tuple(task.as_run_task() for task in self._tasks.values()),
            ended=self._ended_at,
            outcome=self._outcome() if self._ended_at else None,
            failed_task=self._tasks[failed].label if failed else None,
            stopping=self._cancelled_by is not None and self._ended_at is None,
        )

    def _outcome(self) -> RunOutcome:
        if self._decision is None:
            return "cancelled"
        return "failed" if self._decision.code else "succeeded"
