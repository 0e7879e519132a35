"""A task that was told to end: whether it had ended by itself before, which decides how the run ended."""

from pathlib import Path
from typing import Any

import pytest

from pai_runtime.engines.local.task import LocalTask, TaskSettings
from pai_task.exit_record import exit_record
from pai_task.folder import Folder
from pai_task.layout import RECORD
from pai_task.outcome import Result
from tests.task_harness import plan

CANCELLED = 1_000.0


def ended(folder: Path, result: Result, cancelled_at: float | None) -> LocalTask:
    """A task of a run, after it has ended with a result."""
    (folder / "worker" / "0").mkdir(parents=True)
    settings: dict[str, Any] = {"secrets": {}, "environment": {}, "storage": {}, "launch": lambda *_: 1}
    options = TaskSettings(**settings, prefixed=False, shown_elsewhere=True, namespaces=0, has_code=False)
    with Folder.at(folder) as run:
        with run.folder("worker/0") as own:
            own.write(RECORD, exit_record(result))
        task = LocalTask(plan(folder), "run", run, options)
        task.has_ended(result.code << 8, stopped=True, cancelled_at=cancelled_at)
    return task


@pytest.mark.parametrize(
    ("result", "cancelled_at", "state"),
    [
        (Result("failed", 3, "command", decided_at=CANCELLED - 1), CANCELLED, "failed"),
        # Its peer was told to end a moment before it was told itself.
        (Result("failed", 239, "command", decided_at=CANCELLED + 0.04), CANCELLED, "stopped"),
        (Result("ok", 0, "command", decided_at=CANCELLED + 0.04), CANCELLED, "succeeded"),
        (Result("cancelled", 3, "command", decided_at=CANCELLED - 1), CANCELLED, "stopped"),
        # Told to end because another task had decided the run.
        (Result("failed", 3, "command", decided_at=CANCELLED + 1), None, "failed"),
        (Result("cancelled", 143, "command", decided_at=CANCELLED + 1), None, "stopped"),
    ],
)
def test_who_fails_after_the_run_was_cancelled_was_stopped(
    tmp_path: Path, result: Result, cancelled_at: float | None, state: str
) -> None:
    assert ended(tmp_path, result, cancelled_at).state == state
