"""The computation on GPUs, with a stand-in for the library of NVIDIA's driver, as these machines have none.

The kernel itself has run on an H100.
"""

import ctypes
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from pai_preflight import computing
from pai_preflight.computing import faults_of_gpus

pytestmark = pytest.mark.process

INVALID_VALUE = 1
NO_DEVICE = 100
LOST = 719


class Driver:
    """What a driver's library does, with a memory of its own; `faulty` are what functions do instead."""

    def __init__(self, gpus: int = 1, **faulty: Callable[..., int]) -> None:
        self.gpus = gpus
        self.memory: list[Any] = [None]
        self.__dict__ |= faulty

    def __getattr__(self, function: str) -> Callable[..., int]:
        if not function.startswith("cu"):
            raise AttributeError(function)
        return lambda *_: 0

    def cuInit(self, _: int) -> int:  # noqa: N802 - the driver's name
        return 0 if self.gpus else NO_DEVICE

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self.gpus
        return 0

    def cuMemGetInfo_v2(self, free: Any, _: Any) -> int:  # noqa: N802
        free._obj.value = 8 * 1024
        return 0

    def cuMemAlloc_v2(self, pointer: Any, size: Any) -> int:  # noqa: N802
        pointer._obj.value = len(self.memory)
        self.memory.append((ctypes.c_uint32 * (size.value // 4))())
        return 0

    def cuLaunchKernel(self, *given: Any) -> int:  # noqa: N802
        kinds = (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint32)
        words, count, wrong, writes = (
            kind.from_address(address).value for kind, address in zip(kinds, given[-2], strict=True)
        )
        for place in range(count):
            right = computing._expected(place)
            if writes:
                self.memory[words][place] = right
            elif self.memory[words][place] != right:
                self.memory[wrong][0] += 1
        return 0

    def cuMemcpyDtoH_v2(self, to: Any, pointer: Any, size: Any) -> int:  # noqa: N802
        ctypes.memmove(ctypes.addressof(getattr(to, "_obj", to)), self.memory[pointer.value], size.value)
        return 0

    def cuGetErrorName(self, code: int, name: Any) -> int:  # noqa: N802
        name._obj.value = {LOST: b"CUDA_ERROR_LAUNCH_FAILED"}.get(code)
        return 0 if code == LOST else INVALID_VALUE


class WrongMemory(Driver):
    """A GPU that forgets two words: one that is compared by the program too, and one that is not."""

    def cuCtxSynchronize(self) -> int:  # noqa: N802
        self.memory[1][7] = self.memory[1][1000] = 0
        return 0


class AlwaysWrong(Driver):
    """A GPU that computes wrong in the same way each time."""

    def cuLaunchKernel(self, *_: Any) -> int:  # noqa: N802
        return 0


def killed(*_: Any) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def silent(*_: Any) -> int:
    signal.pause()
    return 0


@pytest.mark.parametrize(
    ("driver", "expected", "said"),
    [
        (None, 8, []),
        (Driver(), 1, []),
        (Driver(2), 1, []),
        (Driver(0), 0, []),
        (Driver(0), 1, ["CUDA has 0 GPUs"]),
        (Driver(3), 4, ["CUDA has 3 GPUs"]),
        (Driver(cuInit=lambda _: 999), 1, ["cuInit: error (999)"]),
        (Driver(cuCtxSynchronize=lambda: LOST), 1, ["GPU 0: cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED"]),
        (
            Driver(2, cuModuleLoadData=lambda *_: 222),
            1,
            ["GPU 0: cuModuleLoadData", "GPU 1: cuModuleLoadData"],
        ),
        (WrongMemory(), 1, ["GPU 0: 3 words"]),
        (AlwaysWrong(), 1, ["GPU 0: 256 words"]),
        (Driver(cuInit=killed), 1, ["NVIDIA's driver crashed"]),
        (Driver(cuMemsetD32_v2=silent), 1, ["NVIDIA's driver crashed, or did not answer"]),
    ],
)
def test_what_is_wrong_with_a_gpu_is_named(
    monkeypatch: pytest.MonkeyPatch, driver: Driver | None, expected: int, said: list[str]
) -> None:
    monkeypatch.setattr(computing, "_library", lambda: driver)
    monkeypatch.setattr(computing, "_SECONDS", 1 if driver and "cuMemsetD32_v2" in vars(driver) else 60)
    found = faults_of_gpus(expected)
    assert [fault.startswith(begin) for fault, begin in zip(found, said, strict=True)] == [True] * len(said)
