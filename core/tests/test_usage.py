"""What a task uses is measured, over all of its processes, and is in its record beside what it requests."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from pai_task.supervisor import process_tree, usage
from pai_task.supervisor.process_tree import descendants
from tests.support import cli, job, write_job

GROW = """
import os, time
held = bytearray(os.urandom(1 << 20)) * 120
if not os.fork():
    if not os.fork():
        time.sleep(1.5)
    os._exit(0)
sum(i * i for i in range(3_000_000))
os.wait()
time.sleep(1.5)
"""


def used(folder: Path, program: str, memory: int) -> dict[str, object]:
    """What `ps --json` says that the task of a job with this program has used."""
    (folder / "program.py").write_text(program)
    resources = {"cpu": 2, "memoryMB": memory, "gpu": 0}
    command = f"{sys.executable} {folder}/program.py"
    path = write_job(folder, job(worker={"commands": [command], "resourcePerInstance": resources}))
    ran = cli("run", str(path), "--out", str(folder / "run"))
    assert ran.returncode == 0, ran.stderr
    assert ("memoryMB" in ran.stderr) == (memory < 100)
    (task,) = json.loads(cli("ps", str(folder / "run"), "--json").stdout)["tasks"]
    found: dict[str, object] = task["usage"]
    return found


@pytest.mark.process
@pytest.mark.parametrize("memory", [50, 1000])
def test_the_record_says_the_peak_of_all_processes_and_what_they_share_once(
    tmp_path: Path, memory: int
) -> None:
    found = used(tmp_path, GROW, memory)
    peak, seconds = found["memoryPeakMB"], found["cpuSeconds"]
    assert isinstance(peak, int)
    assert 120 <= peak < 200
    assert isinstance(seconds, float)
    assert 0.05 < seconds < 60
    assert found["requested"] == {"memoryMB": memory, "cpu": 2, "gpu": 0}


@pytest.mark.process
@pytest.mark.parametrize("lists_children", [True, False])
def test_descendants_are_found_with_and_without_the_kernels_list(
    monkeypatch: pytest.MonkeyPatch, *, lists_children: bool
) -> None:
    if not lists_children:
        monkeypatch.setattr(process_tree, "_listed_children", lambda _: None)
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        grandchild = os.fork()
        if grandchild:
            os.write(tell, str(grandchild).encode())
        time.sleep(60)
        os._exit(0)
    try:
        grandchild = int(os.read(told, 20))
        assert {child, grandchild} <= set(descendants(os.getpid()))
        assert descendants(child) == [grandchild]
    finally:
        for pid in (child, grandchild):
            os.kill(pid, 9)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)


def test_a_sample_that_cost_much_is_followed_by_a_late_one(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[float] = []

    class Clock:
        keepers = frozenset[int]()

        def at(self, when: float, _: object) -> None:
            timers.append(when - time.monotonic())

    watch = usage.Usage(Clock(), {})  # type: ignore[arg-type]
    spent = iter([0.0, 0.05, 0.05, 1.05])
    monkeypatch.setattr(time, "thread_time", lambda: next(spent))
    watch._sample()
    watch._sample()
    first, cheap, dear = timers
    assert first < cheap < 1
    assert dear > 300
