"""A run as metrics, in the text format that Prometheus and the textfile collector of node-exporter read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pai_runtime.command.runs import Run, RunReader, RunTask, Usage

_MIB: Final = 1024 * 1024
_RUN_STATES: Final = ("running", "succeeded", "failed", "cancelled", "lost")
_TASK_STATES: Final = ("waiting", "running", "succeeded", "failed", "stopped", "lost")

_Labels = Mapping[str, str]
_Sample = tuple[_Labels, float]


def metric_lines(reader: RunReader, run: Run, usages: Iterable[tuple[RunTask, Usage]]) -> Iterator[str]:
    """Yield the lines of all metrics of a run; what is not known is left out."""
    of_run = {"run": reader.named, "job": run.job}
    for name, help_, samples in (*_of_run(of_run, run), *_of_tasks(of_run, run), *_of_usage(of_run, usages)):
        if samples:
            yield f"# HELP {name} {help_}"
            yield f"# TYPE {name} gauge"
            for labels, value in samples:
                yield f"{name}{{{','.join(_label(*label) for label in labels.items())}}} {value!r}"


_Metric = tuple[str, str, Sequence[_Sample]]


def _of_run(labels: _Labels, run: Run) -> Iterator[_Metric]:
    states: list[_Sample] = [({**labels, "state": state}, float(run.state == state)) for state in _RUN_STATES]
    yield "pai_run_state", "1 for the state that the run is in, 0 for the others.", states
    yield "pai_run_start_time_seconds", "When the run started, in Unix time.", [(labels, run.started)]
    if run.ended is not None:
        yield "pai_run_end_time_seconds", "When the run ended, in Unix time.", [(labels, run.ended)]
    yield "pai_run_retries", "How often the whole job was restarted.", [(labels, float(run.retries))]
    counts: dict[tuple[str, str], int] = {
        (role, state): 0 for role in dict.fromkeys(task.role for task in run.tasks) for state in _TASK_STATES
    }
    for task in run.tasks:
        counts[task.role, run.state_of(task)] += 1
    tasks: list[_Sample] = [
        ({**labels, "role": role, "state": state}, float(count)) for (role, state), count in counts.items()
    ]
    yield "pai_run_tasks", "How many tasks of a role are in a state.", tasks


def _of_tasks(labels: _Labels, run: Run) -> Iterator[_Metric]:
    def samples(values: Iterable[float | None]) -> list[_Sample]:
        each = zip(run.tasks, values, strict=True)
        return [({**labels, **_of(task)}, float(value)) for task, value in each if value is not None]

    yield (
        "pai_task_start_time_seconds",
        "When the last attempt of a task started, in Unix time.",
        samples(task.started for task in run.tasks),
    )
    yield (
        "pai_task_end_time_seconds",
        "When a task ended, in Unix time.",
        samples(task.ended for task in run.tasks),
    )
    yield "pai_task_exit_code", "Exit code of a task.", samples(task.exit_code for task in run.tasks)
    yield "pai_task_retries", "How often a task was restarted.", samples(task.retries for task in run.tasks)
    yield (
        "pai_task_failed_callbacks",
        "Callbacks of a task that failed after its command.",
        samples(task.failed_callbacks for task in run.tasks),
    )


def _of_usage(labels: _Labels, usages: Iterable[tuple[RunTask, Usage]]) -> Iterator[_Metric]:
    used = [({**labels, **_of(task)}, usage) for task, usage in usages]
    for name, help_, values in (
        ("cpu_seconds", "CPU time that a task has used.", [usage.cpu_seconds for _, usage in used]),
        (
            "memory_peak_bytes",
            "Most memory that a task had at a time, as sampled.",
            [_bytes(usage.memory_peak or None) for _, usage in used],
        ),
        (
            "memory_requested_bytes",
            "Memory that a task asks for.",
            [_bytes(usage.memory) for _, usage in used],
        ),
        (
            "gpu_memory_peak_bytes",
            "Most GPU memory that a task had at a time, as sampled.",
            [_bytes(usage.gpu_memory_peak) for _, usage in used],
        ),
        (
            "gpu_utilization_ratio",
            "How busy the GPUs of a task were on average, from 0 to 1.",
            [_ratio(usage.gpu_utilization) for _, usage in used],
        ),
        ("cpus_requested", "CPUs that a task asks for.", [usage.cpu for _, usage in used]),
        ("gpus_requested", "GPUs that a task asks for.", [usage.gpu for _, usage in used]),
    ):
        known = zip(used, values, strict=True)
        yield (
            f"pai_task_{name}",
            help_,
            [(each, float(value)) for (each, _), value in known if value is not None],
        )


def _of(task: RunTask) -> _Labels:
    return {"role": task.role, "index": str(task.index)}


def _ratio(percent: int | None) -> float | None:
    return None if percent is None else percent / 100


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * _MIB


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'
