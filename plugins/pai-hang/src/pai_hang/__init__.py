"""The plugin ``com.microsoft.pai.runtimeplugin.hang``: where tasks are, and whether they hang."""

import shlex
import signal

from pai_runtime.plugin import Analysis, Contribution, Failure, Service, Task, Use, hookimpl

HANGS = "[ERROR] the task hangs: "
"""The beginning of the line of ``runtime.log`` that says why the watch ends the command."""

_HANG = 219
"""The exit code of a task that the watch has ended: a signal's would look like a consequence."""
_ENDED_BY_US = (signal.SIGTERM, signal.SIGKILL)


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    """Contribute the watch, a service beside the task's command."""
    after, then = use.parameters.get("after", 20), use.parameters.get("then", "report")
    log = shlex.quote(str(task.folder / "logs" / "user-all" / "current"))
    script = f'exec "$PAI_RUNTIME_PYTHON" -I -m pai_hang.watch {60 * after:g} {then} {log}'
    return Contribution(services=[Service(use.name, script)])


@hookimpl
def pai_analyze(use: Use, task: Task, failure: Failure) -> Analysis | None:  # noqa: ARG001 - hooks match by name
    """Return why the watch has ended the command; None if it has not."""
    if failure.code not in [128 + number for number in _ENDED_BY_US]:
        return None
    found = [line.partition(HANGS)[2] for line in failure.tails[1].splitlines() if HANGS in line]
    if not found:
        return None
    return Analysis(
        code=_HANG,
        phrase="Hang",
        reason=f"Nothing moved in the task any more: it was {found[-1]}.",
        solution=("The stacks are in runtime.log, before the end of the command",),
        behavior="TRANSIENT",
        trigger="the plugin hang ended the command",
    )
