"""Which GPUs a task of a local run sees.

The machines that run these tests have no GPU, so that what drivers show of them is laid out in a directory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.engines.local.devices import Devices, device_variables, devices_of, lack_of_devices
from pai_runtime.engines.local.engine import LocalRun
from pai_runtime.engines.local.placement import placement
from pai_runtime.engines.local.request import LocalRequest
from pai_runtime.job.model import Job
from pai_runtime.plan.environment import JobEnvironment
from pai_task.plan import PLATFORM, Variable
from tests.job_harness import build
from tests.support import job

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
NODES = "sys/class/kfd/kfd/topology/nodes"
CPU, GPU = "cpu_cores_count 8\nsimd_count 0\n", "cpu_cores_count 0\nsimd_count 240\n"

TWO_NVIDIA = dict.fromkeys(("dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm"), "")
TWO_AMD = {
    "dev/kfd": "",
    f"{NODES}/0/properties": CPU,
    f"{NODES}/1/properties": GPU,
    f"{NODES}/2/properties": GPU,
}


def machine(root: Path, files: Mapping[str, str]) -> Path:
    """The root directory of a machine that has these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def nvidia(*names: str) -> Devices:
    """NVIDIA's devices of these names."""
    return Devices(CUDA, names, is_nvidia=True)


def of_gpus(**gpus: int) -> Job:
    """A job with a role of two tasks for each number of GPUs."""
    worker = job()["taskRoles"]["worker"]
    roles = {
        name: {**worker, "instances": 2, "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": count}}
        for name, count in gpus.items()
    }
    return build({**job(), "taskRoles": roles})


@pytest.mark.parametrize(
    ("files", "environment", "found"),
    [
        ({}, {}, Devices()),
        ({}, {CUDA: "0,1"}, Devices()),
        (TWO_NVIDIA, {}, nvidia("0", "1")),
        ({"dev/nvidia5": ""}, {}, nvidia("0")),  # of a container: a program there counts from 0
        ({"proc/driver/nvidia/gpus/0000:01:00.0/information": ""}, {}, nvidia("0")),
        (TWO_NVIDIA, {CUDA: "1, GPU-8f,-1,0"}, nvidia("1", "GPU-8f")),
        (TWO_NVIDIA, {CUDA: ""}, nvidia()),
        (TWO_NVIDIA, {CUDA: "NoDevFiles"}, nvidia()),
        (TWO_NVIDIA, {HIP: "1", ROCR: "1"}, nvidia("0", "1")),
        (TWO_AMD, {}, Devices(ROCR, ("0", "1"))),
        ({f"{NODES}/1/properties": GPU}, {}, Devices()),  # of a container without the device
        (TWO_AMD, {ROCR: "1"}, Devices(ROCR, ("1",))),
        (TWO_AMD, {ROCR: "1", HIP: "0"}, Devices(HIP, ("0",))),
        (TWO_AMD, {CUDA: "1", HIP: "0"}, Devices(HIP, ("0",))),
        (TWO_AMD, {CUDA: "1"}, Devices(CUDA, ("1",))),
        ({**TWO_NVIDIA, **TWO_AMD}, {}, nvidia("0", "1")),
    ],
)
def test_the_devices_are_those_of_the_machine_that_its_user_leaves_visible(
    files: Mapping[str, str], environment: Mapping[str, str], found: Devices, tmp_path: Path
) -> None:
    assert devices_of(machine(tmp_path, files), environment) == found


@pytest.mark.parametrize(
    ("gpus", "count", "told"),
    [
        ({"a": 1}, 2, ["0", "1"]),
        ({"a": 1, "b": 0, "c": 1}, 4, ["0", "1", "", "", "2", "3"]),
        ({"a": 2}, 4, ["0,1", "2,3"]),
        ({"a": 1}, 1, ["0", "0"]),
        ({"a": 2}, 3, ["0,1", "2,0"]),
        ({"a": 4}, 2, ["0,1", "0,1"]),
        ({"a": 1}, 0, ["", ""]),
    ],
)
def test_tasks_have_devices_of_their_own_as_long_as_there_are_any(
    gpus: dict[str, int], count: int, told: list[str]
) -> None:
    job_, devices = of_gpus(**gpus), Devices(CUDA, tuple(map(str, range(count))))
    assert [each[CUDA] for each in device_variables(job_, devices, ()).values()] == told
    assert (lack_of_devices(job_, devices) is not None) == (2 * sum(gpus.values()) > count)


def test_a_machine_without_devices_hides_none_and_says_that_there_are_none() -> None:
    assert device_variables(of_gpus(a=1), Devices(), ()) == {}
    assert lack_of_devices(of_gpus(a=1), Devices())
    assert lack_of_devices(of_gpus(a=0), Devices()) is None


def test_what_a_task_is_told_is_a_variable_of_the_platform_in_its_plan(tmp_path: Path) -> None:
    # Where retries take it from, too, and which inherited variables do not override.
    job_ = of_gpus(a=1)
    told = device_variables(job_, Devices(ROCR, ("GPU-8f",)), ())
    places = placement(job_, "run", "user", tmp_path, range(20000, 20100), told)
    own = JobEnvironment(job_, places).own(job_.roles["a"], 1)
    assert Variable(ROCR, "GPU-8f", PLATFORM) in own


def placed(root: Path, document: Mapping[str, Any], *asked: str) -> list[Mapping[str, str]]:
    """The variables of the devices of all tasks of a job that is placed on a machine."""
    said: list[str] = []
    wanted = LocalRequest(root, "user", said.append, None, "none", {}, asked, None, "", machine=root)
    return [place.devices for place in LocalRun(build(document), wanted).place().places.values()]


def test_a_run_tells_tasks_their_devices_unless_the_variable_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CUDA, raising=False)
    root = machine(tmp_path, TWO_NVIDIA)
    document = job(worker={"instances": 2, "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 1}})
    assert placed(root, document) == [{CUDA: "0"}, {CUDA: "1"}]
    assert placed(root, document, CUDA) == [{}, {}]
    assert placed(root, {**document, "extras": {"environment": [CUDA]}}) == [{}, {}]
