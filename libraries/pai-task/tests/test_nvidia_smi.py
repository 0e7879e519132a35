"""How busy NVIDIA's GPUs are, by what `nvidia-smi` prints.

No machine of these tests has such a GPU: the program is a stand-in that prints what NVIDIA's prints.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_task.supervisor.nvidia_smi import GpuSamples, nvidia_smi


def samples(text: str) -> GpuSamples:
    found = GpuSamples()
    found.feed(text.encode())
    return found


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 0, 90, 1000\necho 1, 30, 24\necho 0, 60, 10\nexec sleep 1000\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("printed", "utilization", "memory"),
    [
        ("", None, 0),
        ("0, 97, 81559\n", 97, 81559),
        ("0, 100, 500\n1, 0, 20\n0, 50, 400\n1, 50, 700\n", 50, 1100),
        ("0, [N/A], 500\n", None, 500),
        ("0, 10, [GPU is lost]\n", 10, 0),
        ("No devices were found\n", None, 0),
        ("0, 10, 20\n0, 10, 2", 10, 20),
        ("0, 10\n0, 5, 6, 7\n-1, -2, -3\n0, 1e3, ²\n", None, 0),
        ("0, 999999999, 1\n", 100, 1),
        ("x" * 10_000, None, 0),
    ],
)
def test_samples_are_the_average_and_the_peak(printed: str, utilization: int | None, memory: int) -> None:
    found = samples(printed)
    assert (found.utilization, found.memory_peak) == (utilization, memory)


@given(st.lists(st.binary(max_size=40)))
def test_pieces_of_any_size_are_read_as_the_whole(pieces: list[bytes]) -> None:
    lines = b"\n".join([b"0, 70, 12", *pieces, b""])
    whole, parts = GpuSamples(), GpuSamples()
    whole.feed(lines)
    for at in range(len(lines)):
        parts.feed(lines[at : at + 1])
    assert (parts.utilization, parts.memory_peak) == (whole.utilization, whole.memory_peak)


@pytest.mark.parametrize(
    ("visible", "last"),
    [(None, "--loop=10"), ("0,2", "--id=0,2"), ("GPU-8f3d", "--id=GPU-8f3d"), ("", None), ("MIG-1", None)],
)
def test_only_the_gpus_that_the_task_sees_are_asked_for(
    smi: Path, visible: str | None, last: str | None
) -> None:
    program = nvidia_smi(visible, f"/no:{smi.parent}", driver="/dev/null")
    assert (program and program.argv[-1]) == last
    assert nvidia_smi(visible, f"/no:{smi.parent}", driver="/no/driver") is None
    assert nvidia_smi(visible, "relative:/no", driver="/dev/null") is None


_A_TASK = """
import json, sys, time
from pai_task.supervisor import usage
from pai_task.supervisor.loop import Loop
from pai_task.supervisor.spawning import Program

whole = usage.nvidia_smi
usage.nvidia_smi = lambda *given: whole(*given, driver="/dev/null")
usage._GPUS_AFTER = 0.0
loop = Loop()
assert usage.GpuSamples.of(Program(["/no/nvidia-smi"], {}, None), loop).utilization is None
watch = usage.Usage(loop, {"PATH": sys.argv[1], "CUDA_VISIBLE_DEVICES": "0,1"})
until = time.monotonic() + 60
while "gpuMemoryPeakMB" not in watch.measured() and time.monotonic() < until:
    loop.turn(time.monotonic() + 1)
loop.kill_all(60)
print(json.dumps(watch.measured()))
"""


@pytest.mark.process
def test_the_record_says_what_a_program_has_printed_that_goes_on(smi: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _A_TASK, smi.parent], capture_output=True, check=True)
    used = json.loads(done.stdout)
    assert (used["gpuMemoryPeakMB"], used["gpuUtilizationPercent"]) == (1024, 60)
