"""The GPUs of this machine as devices of containers, by the Container Device Interface (CDI)."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pai_runtime.engine import CannotRun, Job
from pai_runtime.engine.local import TaskName, device_variables, devices_of, lack_of_devices

_SPECIFICATIONS: Final = ("etc/cdi", "run/cdi", "var/run/cdi")
_NVIDIA, _AMD = "nvidia.com/gpu", "amd.com/gpu"


def devices_for(job: Job, machine: Path, say: Callable[[str], None]) -> Mapping[TaskName, Sequence[str]]:
    """Return the devices of each task, such as ``nvidia.com/gpu=0``; tasks get different ones if possible.

    `machine` is the root directory in which devices are looked for. Raises `CannotRun` if there are GPUs that
    no container can have.
    """
    found = devices_of(machine, os.environ)
    if lack := lack_of_devices(job, found):
        say(f"note: {lack}")
    kind = _NVIDIA if found.is_nvidia else _AMD
    given = {
        task: [f"{kind}={name}" for name in names.split(",") if name]
        for task, variables in device_variables(job, found, ()).items()
        for names in variables.values()
    }
    if any(given.values()) and not _is_described(machine):
        raise CannotRun(
            "this machine has GPUs, but no description of them for containers in /etc/cdi; make one, such as"
            " by 'nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml'"
        )
    return given


def _is_described(machine: Path) -> bool:
    return any(
        path.suffix in (".json", ".yaml") for each in _SPECIFICATIONS for path in (machine / each).glob("*")
    )
