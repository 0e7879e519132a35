"""Tests that every engine has to pass; they need pytest.

The tests of an engine inherit them::

    import pytest

    pytest.register_assert_rewrite("pai_conformance")
    from pai_conformance import Conformance, Stage


    class TestFarm(Conformance):
        @pytest.fixture
        def stage(self, tmp_path) -> Stage:
            return FarmStage(tmp_path)

A `Stage` has the engine, and plays its tasks: on the real thing, or on a stand-in.
"""

import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pai_document.problems import InvalidInput, Problems
from pai_runtime.engines.interface import Engine, RunRequest
from pai_runtime.host.host import Host
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.runs.errors import CannotRemove
from pai_runtime.runs.names import LATEST
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.terminal.following import follow
from pai_task.signals import STOP_SIGNALS

USER = "ada"
"""Who submits the runs."""


class Stage(ABC):
    """A place with an engine, on which a test plays what the tasks of one run do.

    `options` are values of the engine's own options, which all runs are to have.
    """

    options: Mapping[str, Any] = {}

    @abstractmethod
    def opened(self) -> Engine:
        """Return the engine anew, as another process opens it."""

    def commands(self, roles: Mapping[str, int]) -> Sequence[str]:  # noqa: ARG002 - for real tasks
        """Return the commands of all tasks, by which they do as they are told; `roles` has their numbers."""
        return ["true"]

    def submitted(self, reader: RunReader) -> None:  # noqa: B027 - nothing is to be done with real tasks
        """Have the tasks of the run begin."""

    @abstractmethod
    def write(self, task: str, text: str) -> None:
        """Have a running task, such as ``worker/0``, write a line."""

    @abstractmethod
    def end(self, task: str, code: int) -> None:
        """Have a running task end with an exit code."""

    def stopped(self) -> None:  # noqa: B027 - as above
        """Have all tasks heed that they were told to end."""


class _View:
    """A view in whose place the test looks: it takes each step as soon as its condition holds."""

    def __init__(self, *steps: tuple[Callable[[Run], object], Callable[[], object]]) -> None:
        self._steps = list(steps)

    def say(self, text: str) -> None:
        """Ignore a message."""

    def show(self, run: Run) -> None:
        """Take the next step, if it is time."""
        if self._steps and self._steps[0][0](run):
            self._steps.pop(0)[1]()

    def end(self) -> None:
        """Check that the run did not end before its time."""
        assert not self._steps


def _states(run: Run) -> list[str]:
    return [task.state for task in run.tasks]


def _all_run(run: Run) -> bool:
    return set(_states(run)) == {"running"}


def _has_variables(reader: RunReader, task: RunTask) -> bool:
    """Return whether the variables of a task are known: a task that has just begun may not have told them."""
    with suppress(OSError):
        return bool(reader.variables(task).known)
    return False


def _is_same(one: RunReader, other: RunReader) -> bool:
    folders = [each.folder.resolve() for each in (one, other) if each.folder]
    return folders[0] == folders[-1] if folders else one.named == other.named


class Conformance:
    """The tests; a subclass has the fixture `stage`."""

    @pytest.fixture
    def stage(self) -> Stage:
        """Return the stage of the engine."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _signals_stay_as_they_were(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        yield
        for number, handler in before.items():
            signal.signal(number, handler)

    def submit(
        self,
        stage: Stage,
        folder: Path,
        instances: int = 2,
        *,
        completion: Mapping[str, int] | None = None,
        task_retries: int = 0,
        job_retries: int = 0,
        came_from: Mapping[str, Any] = MappingProxyType({}),
    ) -> RunReader:
        """Submit a job with one role, ``worker``. Raises `InvalidInput` if the engine refuses it."""
        role = {
            "instances": instances,
            "dockerImage": "image",
            "taskRetryCount": task_retries,
            "completion": completion or {},
            "resourcePerInstance": {"cpu": 1, "memoryMB": 128, "gpu": 0},
            "commands": list(stage.commands({"worker": instances})),
        }
        image = {"type": "dockerimage", "name": "image", "uri": "registry.example/train:1"}
        document = {
            "protocolVersion": 2,
            "name": "conformance",
            "type": "job",
            "jobRetryCount": job_retries,
            "prerequisites": [image],
            "taskRoles": {"worker": role},
            "extras": {"gangAllocation": not task_retries},
        }
        path = folder / "conformance.yaml"
        path.write_text(json.dumps(document))
        problems, said = Problems(), list[str]()
        engine = stage.opened()
        request = RunRequest(USER, say=said.append, options=stage.options, provenance=came_from)
        new = engine.new_run(request)
        plans = plan_job(JobFiles(path), Host(), new.place, problems, lenient=engine.has_own_plugins).plans()
        new.check(plans, problems)
        try:
            problems.check()
        except InvalidInput:
            new.discard()
            raise
        reader = new.submit(plans, {})
        stage.submitted(reader)
        return reader

    def test_what_produced_a_run_is_kept_with_it(self, stage: Stage, tmp_path: Path) -> None:
        """Another process reads it, and lists have what was set, unless the engine keeps none."""
        if not stage.opened().keeps_provenance:
            return
        came_from = {"set": {"lr": "0.2"}, "job": {"digest": "0a1b", "text": None}}
        reader = self.submit(stage, tmp_path, 1, came_from=came_from)
        other, _ = self.again(stage, reader)
        assert {key: other.provenance()[key] for key in came_from} == came_from
        assert isinstance(other.provenance()["plugins"], list)
        (listed,) = [each for each, _ in stage.opened().runs() if _is_same(each, reader)]
        assert listed.provenance(whole=False)["set"] == came_from["set"]
        follow(reader, _View((_all_run, lambda: stage.end("worker/0", 0))))

    def again(self, stage: Stage, reader: RunReader) -> tuple[RunReader, Run]:
        """Return a run as another process sees it."""
        other = stage.opened().open_run(reader.named)
        run = other.run()
        assert isinstance(run, Run)
        return other, run

    def test_a_run_is_followed_from_its_submission_to_its_end(self, stage: Stage, tmp_path: Path) -> None:
        """Its output is complete, for who followed it and for others."""
        reader = self.submit(stage, tmp_path)

        def work() -> None:
            for index in range(2):
                stage.write(f"worker/{index}", f"output {index}")
                stage.end(f"worker/{index}", 0)

        run, status = follow(reader, _View((_all_run, work)))
        assert (run.outcome, status, _states(run)) == ("succeeded", 0, ["succeeded"] * 2)
        assert [task.exit_code for task in run.tasks] == [0, 0]
        assert run.failed_task is None
        other, seen = self.again(stage, reader)
        assert (seen.outcome, seen.over) == ("succeeded", True)
        for index, task in enumerate(seen.tasks):
            log = other.log(task, "user")
            assert log.read(1000) == f"output {index}\n".encode()
            assert log.tail(3) == f" {index}\n".encode()
            log.close()

    def test_the_exit_status_is_that_of_the_task_that_failed_first(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        """The others are stopped, and are to blame for nothing."""
        reader = self.submit(stage, tmp_path, 3)
        run, status = follow(reader, _View((_all_run, lambda: stage.end("worker/1", 42))))
        assert (run.outcome, run.failed_task, status) == ("failed", "worker/1", 42)
        assert _states(run) == ["stopped", "failed", "stopped"]
        other, seen = self.again(stage, reader)
        assert seen.failed_task == "worker/1"
        assert other.exit_record(seen.tasks[1])["exitCode"] == 42

    @pytest.mark.parametrize(
        ("completion", "ends", "status"),
        [
            ({"minSucceededInstances": 1}, [0], 0),
            ({"minSucceededInstances": 2, "minFailedInstances": 2}, [0, 0], 0),
            ({"minFailedInstances": 2}, [3, 4], 3),
            ({"minFailedInstances": -1}, [3, 0, 4], 0),
        ],
    )
    def test_completion_policies_decide_the_job(
        self,
        stage: Stage,
        tmp_path: Path,
        completion: Mapping[str, int],
        ends: Sequence[int],
        status: int,
    ) -> None:
        """The tasks end in turn; a policy may be refused beforehand, but not decided otherwise."""
        try:
            reader = self.submit(stage, tmp_path, 3, completion=completion)
        except InvalidInput:
            return  # beforehand

        def ended(count: int) -> Callable[[Run], bool]:
            return lambda run: (
                sum(task.over for task in run.tasks) == count
                and len([task for task in run.tasks if task.state == "running"]) == len(run.tasks) - count
            )

        steps = [
            (ended(index), lambda index=index, code=code: stage.end(f"worker/{index}", code))
            for index, code in enumerate(ends)
        ]
        run, found = follow(reader, _View(*steps))
        assert (run.outcome, found) == ("failed" if status else "succeeded", status)
        assert all(task.over for task in run.tasks)

    def test_a_task_that_fails_is_retried(self, stage: Stage, tmp_path: Path) -> None:
        """The other tasks go on meanwhile."""
        reader = self.submit(stage, tmp_path, task_retries=1)

        def is_retried(run: Run) -> bool:
            return run.tasks[0].retries == 1 and _all_run(run)

        def work() -> None:
            stage.end("worker/0", 0)
            stage.end("worker/1", 0)

        run, status = follow(reader, _View((_all_run, lambda: stage.end("worker/0", 3)), (is_retried, work)))
        assert (run.outcome, status, run.retries) == ("succeeded", 0, 0)
        assert [task.retries for task in run.tasks] == [1, 0]

    def test_a_job_that_fails_is_retried_from_its_start(self, stage: Stage, tmp_path: Path) -> None:
        """It is so as often as it says, and then it has failed."""
        reader = self.submit(stage, tmp_path, job_retries=1)

        def again(run: Run) -> bool:
            return run.retries == 1 and _all_run(run)

        run, status = follow(
            reader,
            _View((_all_run, lambda: stage.end("worker/0", 3)), (again, lambda: stage.end("worker/1", 4))),
        )
        assert (run.outcome, status, run.retries, run.failed_task) == ("failed", 4, 1, "worker/1")

    def test_a_run_is_seen_and_stopped_from_elsewhere(self, stage: Stage, tmp_path: Path) -> None:
        """It is listed, can be explained, and ends as cancelled for who follows it."""
        reader = self.submit(stage, tmp_path)

        def look_and_stop() -> None:
            other, seen = self.again(stage, reader)
            assert _all_run(seen)
            assert other.variables(seen.tasks[1]).known["PAI_TASK_INDEX"]["value"] == "1"
            with pytest.raises(CannotRemove):
                other.remove()
            other.cancel()
            stage.stopped()

        def is_seen(_run: Run) -> bool:  # who looks from elsewhere may see it a moment later
            other, seen = self.again(stage, reader)
            return _all_run(seen) and _has_variables(other, seen.tasks[1])

        run, status = follow(reader, _View((is_seen, look_and_stop)))
        assert (run.outcome, status, _states(run)) == ("cancelled", 130, ["stopped"] * 2)
        assert self.again(stage, reader)[1].outcome == "cancelled"

    def test_a_run_that_is_over_is_removed(self, stage: Stage, tmp_path: Path) -> None:
        """There is none of its name any more, unless the engine says that it removes none."""
        reader = self.submit(stage, tmp_path, 1)
        follow(reader, _View((_all_run, lambda: stage.end("worker/0", 0))))
        engine = stage.opened()
        if "rm" in engine.cannot:
            return
        assert _is_same(engine.find_run(LATEST, USER), reader)
        self.again(stage, reader)[0].remove()
        assert isinstance(stage.opened().open_run(reader.named).run(), Unreadable)
        assert not [each for each, _ in stage.opened().runs() if _is_same(each, reader)]

    def test_ctrl_c_leaves_a_run_that_goes_on_and_cancels_any_other(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        """One that goes on can be followed again."""
        reader = self.submit(stage, tmp_path, 1)

        def interrupt() -> None:
            os.kill(os.getpid(), signal.SIGINT)

        run, status = follow(reader, _View((_all_run, interrupt)))
        assert status == 130
        if not reader.goes_on:
            assert run.outcome == "cancelled"
            return
        assert not run.over
        other, _ = self.again(stage, reader)
        run, status = follow(other, _View((_all_run, lambda: stage.end("worker/0", 7))))
        assert (run.outcome, status) == ("failed", 7)

    def test_a_run_needs_nobody_who_follows_it(self, stage: Stage, tmp_path: Path) -> None:
        """Not one who dies, and none if it is detached; unless the engine says that its runs need one."""
        if not stage.opened().runs_go_on:
            return
        reader = self.submit(stage, tmp_path, 1)
        reader.follow(lambda _text: None)
        reader.close()  # all that the death of its process does
        stage.write("worker/0", "nobody hears me")
        stage.end("worker/0", 0)
        other = stage.opened().find_run(LATEST, USER)
        assert _is_same(other, reader)
        run, status = follow(other, _View())
        assert (run.outcome, status) == ("succeeded", 0)
        another, seen = self.again(stage, reader)
        log = another.log(seen.tasks[0], "user")
        assert log.read(1000) == b"nobody hears me\n"
        log.close()
