"""The end of one element of an array: what it decides about the job, by the marks of those that have ended.

Nobody supervises an array as a whole. Each element leaves a mark, whose name has its exit code, so that one
look at a directory is enough for a decision.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pai_runtime.engine import ClusterError, Job
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.local import Folder
from pai_runtime.engine.records import Decision, TaskName, decision
from pai_runtime.engine.submitting import SECRETS
from pai_slurm.commands import call

_ENDED: Final = "ended"
_DECISION: Final = "decision.json"
_MARK: Final = re.compile(r"([0-9]+)-([0-9]+)")
_MOST_BYTES: Final = 4096
_OWN: Final = 0o600
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def end_element(folder: Folder, job: Job, number: int, code: int, array_id: str) -> Decision | None:
    """Note the end of an element, and end the others if that decides the job.

    Returns the decision if it is for this element to tell: it is that of the task that failed the job, or
    that of the element which noted it. Raises OSError.
    """
    tasks = job.tasks
    with folder.folder(_ENDED, make=True) as ended:
        ended.write(f"{number}-{code}", "", _OWN)
        codes = _codes(ended, tasks)
    codes[tasks[number]] = codes.pop(tasks[number])  # the last: it is what may decide
    decided = decision(job.roles, codes)
    if decided is None:
        return None
    own = f"{tasks[number][0]}/{tasks[number][1]}"
    if not _note_decision(folder, decided):
        # Whoever did has seen the mark of this one, and leaves it to it to tell of its failure.
        found = read_decision(folder.path)
        return Decision(int(found["code"]), tasks[number]) if found.get("failed") == own else None
    folder.unlink(SECRETS)
    if len(codes) < len(tasks):
        try:
            call("scancel", "--state=PENDING", array_id)
            call("scancel", "--batch", "--signal=INT", array_id)
        except ClusterError as error:
            sys.stderr.write(f"pai-runtime: the job is decided, and the others go on: {error}\n")
    return decided if decided.failed_task in (None, tasks[number]) else None


def _note_decision(folder: Folder, decided: Decision) -> bool:
    """Write the decision; return whether no other element has before."""
    failed = decided.failed_task and f"{decided.failed_task[0]}/{decided.failed_task[1]}"
    try:
        fd = os.open(_DECISION, _NEW, _OWN, dir_fd=folder.fd)
    except FileExistsError:
        return False
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump({"code": decided.code, "failed": failed}, file)
    return True


def read_decision(path: Path) -> dict[str, Any]:
    """Return what has decided the job of an array: its ``code`` and the ``failed`` task; empty if nothing."""
    try:
        with Folder.at(path) as folder:
            found = loads_untrusted(folder.read(_DECISION, _MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _codes(ended: Folder, tasks: Sequence[TaskName]) -> dict[TaskName, int]:
    marks = [_MARK.fullmatch(name) for name in ended.names()]
    numbers = {int(mark[1]): int(mark[2]) for mark in marks if mark}
    return {tasks[number]: code for number, code in numbers.items() if number < len(tasks)}
