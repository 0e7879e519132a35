"""What the end of an element of an array decides, and which of them is to tell of the job."""

from pathlib import Path

import pytest

from pai_runtime.engine import Job
from pai_runtime.engine.local import Folder
from pai_runtime.engine.records import Decision
from pai_slurm.array import end_element
from tests.job_harness import build
from tests.slurm_user import role
from tests.support import job


def of_four(**completion: int) -> Job:
    """A job of four tasks; Slurm is asked for nothing as long as all of them have ended."""
    worker = role("true", instances=4, completion=completion)
    return build(job(taskRoles={"worker": worker}, extras={"gangAllocation": False}))


def ends(folder: Path, of: Job, *codes: int) -> list[Decision | None]:
    with Folder.at(folder) as marks:
        return [end_element(marks, of, number, code, "1") for number, code in enumerate(codes)]


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ((0, 0, 0, 0), Decision(0)),
        ((1, 0, 0, 1), Decision(0)),  # the last one has failed, and the job has not
    ],
)
def test_the_last_one_tells_what_became_of_the_job(
    tmp_path: Path, codes: tuple[int, ...], told: Decision
) -> None:
    assert ends(tmp_path, of_four(minFailedInstances=3), *codes) == [None, None, None, told]


def test_who_failed_the_job_tells_it_also_where_another_one_saw_that_first(tmp_path: Path) -> None:
    of = of_four()
    (tmp_path / "ended").mkdir()
    for mark in ("0-7", "1-0", "2-0"):  # whose elements are about to look at the marks
        (tmp_path / "ended" / mark).touch()
    with Folder.at(tmp_path) as marks:
        assert end_element(marks, of, 3, 0, "1") is None
        assert end_element(marks, of, 0, 7, "1") == Decision(7, ("worker", 0))
        assert end_element(marks, of, 1, 0, "1") is None
