"""The use of NVIDIA's GPUs, as one `nvidia-smi` that goes on for as long as the task tells it.

NVML in this process would be cheaper, but may never return on a GPU that has failed; and NVIDIA's driver
tells nothing in ``/proc/PID/fdinfo``.
"""

from __future__ import annotations

import os

from pai_task.supervisor.spawning import CannotStart, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_task.supervisor.loop import Loop

_DRIVER = "/dev/nvidiactl"
_EVERY = 10
"""Seconds from sample to sample: each takes some milliseconds for every GPU."""
_MOST_LINE = 1024
_FIELDS = 3


def nvidia_smi(visible: str | None, path: str, driver: str = _DRIVER) -> Program | None:
    """Return the program that samples the GPUs of a task; None if there are none, or no such program.

    `visible` is the task's ``CUDA_VISIBLE_DEVICES``, None if that is not set; `path` is a ``PATH``.
    """
    # It cannot tell how busy a part of a GPU is, which is what the names of MIG are for.
    if not os.path.exists(driver) or visible == "" or "MIG-" in (visible or ""):
        return None
    found = [f"{folder}/nvidia-smi" for folder in path.split(":") if os.path.isabs(folder)]
    program = next((each for each in found if os.access(each, os.X_OK)), None)
    if program is None:
        return None
    query = (
        "--query-gpu=index,utilization.gpu,memory.used",
        "--format=csv,noheader,nounits",
        f"--loop={_EVERY}",
    )
    chosen = () if visible is None else (f"--id={visible}",)
    # The last is what a service has, and neither the command nor a step: it is none of what `stacks` shows.
    return Program([program, *query, *chosen], {"PATH": path, "LC_ALL": "C", "PAI_RUNTIME_PYTHON": ""}, None)


class GpuSamples:
    """A receiver of what `nvidia_smi` prints: a line for each GPU, again and again.

    `memory_peak` is in MiB, of all of them at one time, and counts other programs on the same GPUs.
    """

    def __init__(self) -> None:
        self.memory_peak = 0
        self._memory: dict[bytes, int] = {}
        self._percents = self._samples = 0
        self._rest = b""

    @classmethod
    def of(cls, program: Program, loop: Loop) -> GpuSamples:
        """Return what comes from a program that is started; nothing comes of one that cannot be."""
        samples = cls()
        try:
            stdout = loop.pipe(samples)
            nothing = os.open(os.devnull, os.O_WRONLY)
            try:
                loop.spawn(program, stdout, nothing)
            finally:
                os.close(stdout)
                os.close(nothing)
        except (CannotStart, OSError):
            pass
        return samples

    @property
    def utilization(self) -> int | None:
        """How busy the GPUs were, in percent of the time on average; None if that is not known."""
        return round(self._percents / self._samples) if self._samples else None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the output."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_MOST_LINE]
        for line in lines:
            fields = [field.strip() for field in line.split(b",")]
            if len(fields) == _FIELDS:
                self._add(*fields)

    def idle(self) -> bool:
        """Do nothing in a pause."""
        return False

    def flush(self) -> None:
        """Do nothing at the end, as half a line says nothing."""

    def _add(self, gpu: bytes, percent: bytes, memory: bytes) -> None:
        # What a GPU does not tell is "[N/A]", and one that has failed "[GPU is lost]" or the like.
        if _is_number(memory) and (gpu in self._memory or len(self._memory) < _MOST_LINE):
            self._memory[gpu] = int(memory)
            self.memory_peak = max(self.memory_peak, sum(self._memory.values()))
        if _is_number(percent):
            self._percents += min(int(percent), 100)
            self._samples += 1


def _is_number(field: bytes) -> bool:
    return field.isdigit() and len(field) < 10  # noqa: PLR2004 - digits, so MiB of a million GPUs
