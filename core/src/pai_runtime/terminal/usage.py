"""Lines that say what tasks have used, beside what they request."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pai_document.amounts import counted
from pai_runtime.runs.state import RunTask
from pai_runtime.runs.usage import Usage
from pai_runtime.terminal.text import some
from pai_runtime.terminal.times import time_span

_MOST_EACH = 4
"""Tasks that are shown one by one; of more, each role is, from the least of its tasks to the most."""
_MINUTE = 60


def usage_lines(tasks: Iterable[tuple[RunTask, Usage]], *, on_cluster: bool = False) -> Iterator[str]:
    """Yield what tasks have used of what they request, and which took more memory than that."""
    used = list(tasks)
    groups: dict[str, list[Usage]] = {}
    for task, usage in used:
        groups.setdefault(task.name if len(used) <= _MOST_EACH else task.role, []).append(usage)
    if len(used) > _MOST_EACH:
        groups = {f"{role} ({counted(len(each), 'task', 'tasks')})": each for role, each in groups.items()}
    if groups:
        amounts = [f"{name} {_amounts(group)}" for name, group in groups.items()]
        yield f"peak of memory, and CPU time: {some(amounts, separator='; ')}"
    if over := [(task, usage) for task, usage in used if usage.is_over]:
        peaks = [f"{task.name} {usage.memory_peak} of {usage.memory} MB" for task, usage in over]
        them = "it" if len(over) == 1 else "them"
        # What ends them there depends on the cluster, and the peak may count pages that its limit does not.
        means = "" if on_cluster else f"; a cluster would have ended {them}"
        yield f"above memoryMB: {some(peaks)}{means}"


def _amounts(group: Sequence[Usage]) -> str:
    """Return what tasks with the same request have used, such as ``7 of 100 MB, 0.2 s of 1 CPU``."""
    asked = group[0]
    amounts = []
    if memory := [each.memory_peak for each in group if each.memory_peak]:  # 0: too short to be sampled
        amounts.append(f"{_range(memory)} of {asked.memory} MB" if asked.memory else f"{_range(memory)} MB")
    cpu = _range([each.cpu_seconds for each in group], _seconds)
    amounts.append(f"{cpu} of {counted(asked.cpu, 'CPU', 'CPUs')}" if asked.cpu else cpu)
    if gpu := [each.gpu_memory_peak for each in group if each.gpu_memory_peak is not None]:
        where = f"on {counted(asked.gpu, 'GPU', 'GPUs')}" if asked.gpu else "of GPU memory"
        amounts.append(f"{_range(gpu)} MB {where}")
    if busy := [each.gpu_utilization for each in group if each.gpu_utilization is not None]:
        amounts.append(f"GPU busy {_range(busy)} %")
    return ", ".join(amounts)


def _range(values: Sequence[float], form: Callable[[float], str] = str) -> str:
    least, most = form(min(values)), form(max(values))
    return least if least == most else f"{least} to {most}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < _MINUTE else time_span(seconds)
