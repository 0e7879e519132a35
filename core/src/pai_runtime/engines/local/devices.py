"""The GPUs of this machine, and which of them each task sees.

They are counted by what the drivers show in the file system, without any library or program of theirs. A task
is told its own by the variable that the vendor's runtime reads, in which an empty value means no device. That
of AMD is ``ROCR_VISIBLE_DEVICES``, which all of ROCm heeds, as AMD recommends for Linux.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle, islice
from pathlib import Path

from pai_runtime.job.model import Job
from pai_runtime.plan.environment import TaskName
from pai_task.record import record

_CUDA, _HIP, _ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"


@record(frozen=True)
class Devices:
    """The GPUs that a run may use, as the `variable` that restricts a program to some names them."""

    variable: str = ""
    names: tuple[str, ...] = ()
    is_nvidia: bool = False


def devices_of(machine: Path, environment: Mapping[str, str]) -> Devices:
    """Return the GPUs of the machine whose root directory this is: NVIDIA's, or if there are none, AMD's.

    Of these, only those that the user's environment leaves visible.
    """
    if count := _count_nvidia(machine):
        variable = _CUDA
    elif count := _count_amd(machine):
        # The first two select among what the third leaves: one that is set has to be narrowed itself.
        variable = next((name for name in (_HIP, _CUDA) if name in environment), _ROCR)
    else:
        return Devices()
    given = environment.get(variable)
    names = tuple(map(str, range(count)) if given is None else _named(given))
    return Devices(variable, names, is_nvidia=_count_nvidia(machine) > 0)


def device_variables(job: Job, devices: Devices, asked: Iterable[str]) -> dict[TaskName, dict[str, str]]:
    """Return the variable that tells each task its devices; nothing if there are none, or it is `asked` for.

    Tasks get different devices as long as there are any, and share them evenly where there are too few.
    """
    if not devices.variable or devices.variable in asked:
        return {}
    ring = cycle(devices.names)
    return {
        (role.name, index): {
            devices.variable: ",".join(islice(ring, min(role.gpu, len(devices.names)))),
        }
        for role in job.roles.values()
        for index in range(role.instances)
    }


def lack_of_devices(job: Job, devices: Devices) -> str | None:
    """Return what to tell people if the tasks request more GPUs than there are, else None."""
    wanted, count = sum(role.gpu * role.instances for role in job.roles.values()), len(devices.names)
    if wanted <= count:
        return None
    if not devices.variable:
        return f"this machine has no GPU, but a task requests {max(role.gpu for role in job.roles.values())}"
    if not count:
        return f"{devices.variable} hides the GPUs of this machine, but the tasks request {wanted}"
    return f"the tasks request {wanted} GPUs and share the {count} that they can have on this machine"


def _named(text: str) -> Iterator[str]:
    """Yield the devices in the value of a variable: the runtimes ignore all that follows an invalid one."""
    for each in text.split(","):
        if not re.match("[0-9]|GPU-|MIG-", each.strip()):
            return
        yield each.strip()


def _count_nvidia(machine: Path) -> int:
    """Count the devices of a container or machine; before their first use, only the driver knows them."""
    files = [path for path in machine.glob("dev/nvidia[0-9]*") if path.name[6:].isdigit()]
    return len(files) or len(list(machine.glob("proc/driver/nvidia/gpus/*")))


def _count_amd(machine: Path) -> int:
    """Count the nodes of ROCm's topology that can compute; the others are CPUs, or not for this container."""
    if not (machine / "dev/kfd").exists():
        return 0
    nodes = machine.glob("sys/class/kfd/kfd/topology/nodes/*/properties")
    return sum(re.search(r"^simd_count [1-9]", _text(node), re.MULTILINE) is not None for node in nodes)


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""
