"""What a task has used, from its exit record, which is untrusted."""

from collections.abc import Iterator, Mapping
from typing import Any

from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_task.record import record

MOST_READ = 1000
"""Tasks of a run whose records are read for what is notable of them: more would take long."""


@record(frozen=True)
class Usage:
    """What a task has used: MiB of memory at its peak, seconds of all processors; and what it requests.

    `gpu_memory_peak` is in MiB; None if it used none, or the driver does not tell. `gpu_utilization` is in
    percent of the time, on average over its GPUs; None if unknown.
    """

    memory_peak: int
    cpu_seconds: float
    gpu_memory_peak: int | None = None
    memory: int | None = None
    cpu: int | None = None
    gpu: int | None = None
    gpu_utilization: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether it took more memory than it requests, which ends a task on a cluster."""
        return self.memory is not None and 0 < self.memory < self.memory_peak

    def to_json(self) -> dict[str, Any]:
        """Return it as in the record."""
        requested = {"memoryMB": self.memory, "cpu": self.cpu, "gpu": self.gpu}
        return {
            "memoryPeakMB": self.memory_peak,
            "cpuSeconds": self.cpu_seconds,
            **({} if self.gpu_memory_peak is None else {"gpuMemoryPeakMB": self.gpu_memory_peak}),
            **({} if self.gpu_utilization is None else {"gpuUtilizationPercent": self.gpu_utilization}),
            "requested": {name: value for name, value in requested.items() if value is not None},
        }


def usage_in(record: Mapping[str, Any]) -> Usage | None:
    """Return what a record says; None if that is nothing, or invalid."""
    found = record.get("usage")
    if not isinstance(found, Mapping):
        return None
    requested = found.get("requested")
    asked = requested if isinstance(requested, Mapping) else {}
    memory, seconds = _whole(found.get("memoryPeakMB")), found.get("cpuSeconds")
    if memory is None or not isinstance(seconds, (int, float)):
        return None
    gpu_memory, utilization = map(_whole, map(found.get, ("gpuMemoryPeakMB", "gpuUtilizationPercent")))
    wanted_memory, cpu, gpu = (_whole(asked.get(name)) for name in ("memoryMB", "cpu", "gpu"))
    return Usage(memory, float(seconds), gpu_memory, wanted_memory, cpu, gpu, utilization)


def usage_of_tasks(reader: RunReader, run: Run) -> Iterator[tuple[RunTask, Usage]]:
    """Yield the tasks of a run that have ended, with what the last attempt of each has used, if known."""
    for task in [each for each in run.tasks if each.over][:MOST_READ]:
        usage = usage_in(reader.exit_record(task))
        if usage:
            yield task, usage


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
