"""What the local engine decides when tasks end as a test says: its own code, with tasks that are not run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pai_runtime.engines.local.engine import LocalRun
from pai_runtime.engines.local.request import LocalRequest
from pai_runtime.job.model import Job
from pai_runtime.plan.attempt_variables import Attempt
from pai_runtime.runs.retries import Retries

TaskName = tuple[str, int]


class _Nobody:
    """Somebody to whom all is said, and who does not listen."""

    def __call__(self, *_said: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_said, **_named: None


_NOBODY: Any = _Nobody()


def _request(folder: Path) -> LocalRequest:
    return LocalRequest(folder, "user", _NOBODY, None, "none", {}, (), None, "")


class _Task:
    """What the local engine knows of a task."""

    def __init__(self, name: TaskName) -> None:
        self.name = name
        self.label = f"{name[0]}/{name[1]}"
        self.not_retried = False
        self._begin(Attempt())

    def _begin(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.state = "waiting"
        self.code: int | None = None
        self._record: Mapping[str, Any] = {}

    def prepare_retry(self, attempt: Attempt) -> None:
        self._begin(attempt)

    def ends(self, code: int, behavior: str, time: int) -> None:
        """It is about to end so."""
        outcome = "failed" if code else "succeeded"
        self._record = {"outcome": outcome, "behavior": behavior, "decidedAt": f"{time:09}"}

    def has_ended(self, status: int, *, stopped: bool, cancelled_at: float | None) -> int:
        assert not stopped
        assert cancelled_at is None
        self.code, self.state = status, "failed" if status else "succeeded"
        return status

    def stop(self, *, at_once: bool = False) -> None:  # noqa: ARG002 - as the engine calls it
        if self.state in ("waiting", "running"):
            self.state, self.code, self._record = "stopped", 143, {"outcome": "cancelled"}

    def record(self) -> Mapping[str, Any]:
        return self._record


class LocalDecisions:
    """A local run of a job whose tasks end by `task_ended`; `permanent` has codes by role."""

    def __init__(self, job: Job, permanent: Mapping[str, Any], folder: Path) -> None:
        self._permanent = permanent
        self._time = 0
        self._run = run = LocalRun(job, _request(folder))
        run._folder.close()  # nothing is written
        run._events = run._record = _NOBODY
        run._retries = Retries(job, run._deadline, _NOBODY, _NOBODY)
        supervisors: Any = self
        run._supervisors, run._roles = supervisors, job.roles
        names = [(role.name, index) for role in job.roles.values() for index in range(role.instances)]
        tasks: Any = {name: _Task(name) for name in names}
        run._tasks = tasks
        self.outcome: str | None = None
        self._start_all()

    def _start_all(self) -> None:
        for task in self._run._tasks.values():
            self._run._start(task)

    def start(self, task: Any, seconds: float | None) -> None:
        """In the place of supervisors."""
        assert seconds is None
        task.state = "running"

    @property
    def restarts(self) -> int:
        """How often the whole job was restarted."""
        return self._run._retries.of_job

    @property
    def running(self) -> dict[TaskName, tuple[int, int]]:
        """Which tasks run: the attempt of the job, and in it that of the task."""
        return {
            name: (task.attempt.of_job, task.attempt.of_task)
            for name, task in self._run._tasks.items()
            if task.state == "running"
        }

    def task_ended(self, name: TaskName, code: int) -> None:
        """A task has ended, as the engine sees it; if that decides the job, all others are stopped."""
        self._time += 1
        task: Any = self._run._tasks[name]
        is_permanent = code in self._permanent.get(name[0], ())
        task.ends(code, "PERMANENT" if is_permanent else "UNKNOWN", self._time)
        self._run._has_ended(task, code)
        if self._run._decision is None:
            return
        self._run._blame()
        if self._run._is_retried():
            self._start_all()
        else:
            self.outcome = self._run._outcome()
