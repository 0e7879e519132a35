"""The plugin ``com.microsoft.pai.runtimeplugin.hang``: where tasks are, and whether they hang."""

from pai_runtime.plugin import Contribution, Service, Task, Use, UserError, has_secret, hookimpl

HANGS = "[ERROR] the task hangs: "
"""The beginning of the line of ``runtime.log`` that says why the watch ends the command."""

_ENDED = {
    "containerExitCode": 219,  # a signal's would look like a consequence
    "phrase": "Hang",
    "behavior": "TRANSIENT",
    "reason": "Nothing moved in the task any more, so it was ended.",
    "solution": ["The stacks are in runtime.log, before the end of the command"],
    "patterns": [{"platformLogRegex": r"(?m)\[ERROR\] the task hangs: .*$"}],
}
"""The rule that explains the end of a task which the watch has ended."""
_UNITS = {"s": 1, "m": 60, "h": 3600}


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution | None:  # noqa: ARG001 - hooks match by name
    """Contribute the watch, a service beside the task's command that starts when it has long been silent."""
    after, then = use.parameters.get("after", "20m"), use.parameters.get("then", "report")
    if then == "ignore":
        return None
    if has_secret(after):
        raise UserError("after: expected a time such as 20m, which is in the plan, and no secret")
    seconds = float(after[:-1]) * _UNITS[after[-1]]
    # A task that writes never has a watch; of a silence, the second half is watched.
    run = "-I", "-m", "pai_hang.watch", f"{seconds:g}", f"{seconds / 2:g}", then
    script = f'exec "$PAI_RUNTIME_PYTHON" {" ".join(run)}'
    watch = Service(use.name, script, when_silent=seconds / 2, ancestor=run)
    return Contribution(services=[watch], exit_rules=[_ENDED] if then == "fail" else [])
