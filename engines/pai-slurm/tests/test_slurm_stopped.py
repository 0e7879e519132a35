"""A job of Slurm that starts after its run was stopped ends at once, and the run is cancelled."""

import json
import sys
import time
from pathlib import Path

import pytest

from pai_runtime.engine import Run
from pai_runtime.engine.classes import replace
from pai_runtime.engine.local import Folder
from pai_runtime.engine.submitting import SECRETS
from pai_slurm.batch import main
from pai_slurm.queue import ENDS, Queue
from pai_slurm.reader import SlurmRunReader
from pai_slurm.submitted import (
    End,
    Submitted,
    note_end,
    note_job,
    note_stop,
    note_submission,
    read_submitted,
)
from tests.job_harness import build
from tests.support import job

pytestmark = pytest.mark.process

CANCELLED = ("cancelled", f"job 12 {ENDS['CANCELLED']}", None)


def submitted(path: Path) -> Submitted:
    found = read_submitted(path)
    assert isinstance(found, Submitted)
    return found


def told(path: Path) -> tuple[str | None, str, str | None]:
    """How the run ended, what is said of that, and which task is blamed."""
    run = SlurmRunReader(path.parent, path.name, "lab", Queue()).run()
    assert isinstance(run, Run)
    assert run.ended is not None
    return run.outcome, run.note, run.failed_task


def submit(path: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    """Make what there is of a submitted run that was stopped before its job started."""
    path.mkdir()
    with Folder.at(path) as folder:
        note_submission(folder, build(job(**fields)), "ada")
        note_job(folder, "12")
        note_stop(folder)
        folder.write(SECRETS, "{}", 0o600)
    monkeypatch.setattr(sys, "argv", ["batch", str(path)])


def test_a_run_that_was_stopped_before_its_first_start_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(tmp_path / "run-1", monkeypatch)
    assert main() == 130
    assert told(tmp_path / "run-1") == CANCELLED
    assert not (tmp_path / "run-1" / SECRETS).exists()


def test_a_run_whose_first_attempt_has_failed_is_cancelled_if_it_is_stopped_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run-1"
    submit(path, monkeypatch)
    waiting = submitted(path).waiting
    task = replace(waiting.tasks[0], state="failed", exit_code=1)
    failed = replace(
        waiting, engine="local", tasks=(task,), ended=time.time(), outcome="failed", failed_task=task.name
    )
    (path / path.name).mkdir()
    (path / path.name / "run.json").write_text(json.dumps(failed.to_json()))
    assert main() == 130
    assert told(path) == ("cancelled", "", None)


def test_an_element_of_a_stopped_array_does_not_end_the_others_and_says_not_that_the_array_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run-1"
    submit(path, monkeypatch, worker={"instances": 2}, extras={"gangAllocation": False})
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert main() == 130
    assert submitted(path).end is None
    note_end(path, End("FAILED", time.time()))  # as the reader does, once all have ended
    assert told(path) == CANCELLED
