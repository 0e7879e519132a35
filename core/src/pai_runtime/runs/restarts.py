"""The restarts of a followed run and of its tasks, each worth a line. Pure."""

from collections.abc import Iterator

from pai_runtime.runs.state import Run, RunTask

_MOST_NAMED = 10


def restarts(before: Run, now: Run) -> Iterator[str]:
    """Yield a line for each restart since `before`."""
    if now.retries > before.retries:
        failed = [task for task in before.tasks if task.state == "failed"]
        first = min(failed, key=lambda task: task.ended or 0.0, default=None)
        why = f"task {first.name}: {_why(first)}; " if first else ""
        yield f"{why}the job is restarted ({_times(now.retries)} so far)"
        return
    earlier = {task.name: task for task in before.tasks}
    again = [task for task in now.tasks if task.name in earlier and _again(earlier[task.name], task)]
    for task in again[:_MOST_NAMED]:
        note = earlier[task.name].note.partition(";")[0]  # not that it is going to be
        why = f": {note}" if note else ""
        yield f"task {task.name} is started again ({_times(task.retries - now.retries)} so far){why}"
    if len(again) > _MOST_NAMED:
        yield f"and {len(again) - _MOST_NAMED} more tasks are started again"


def _again(before: RunTask, now: RunTask) -> bool:
    return now.retries > before.retries


def _why(task: RunTask) -> str:
    return task.note or f"failed with exit code {task.exit_code}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
