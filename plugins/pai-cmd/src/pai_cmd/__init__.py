"""The plugin ``com.microsoft.pai.runtimeplugin.cmd``: shell commands on the events of a task."""

from collections.abc import Iterator

from pai_runtime.plugin import Contribution, Event, ShellStep, Task, Use, hookimpl

EVENTS: dict[str, Event] = {
    "taskStarts": "taskStarts",
    "containerStart": "taskStarts",
    "containerStarts": "taskStarts",
    "taskSucceeds": "taskSucceeds",
    "taskFails": "taskFails",
    "taskExits": "taskExits",
    "containerExit": "taskExits",
    "containerExits": "taskExits",
}
"""The names of a callback's event, each with the event that it means."""


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:  # noqa: ARG001 - pluggy matches by name
    """Contribute one script for each callback, made of its commands."""
    return Contribution(steps=list(_scripts(use)))


def _scripts(use: Use) -> Iterator[ShellStep]:
    for event, key in (("taskStarts", "preCommands"), ("taskSucceeds", "postCommands")):
        if use.parameters.get(key):
            yield ShellStep(EVENTS[event], _script(use.parameters[key]))
    for callback in use.parameters.get("callbacks", ()):
        # Others are an error, which only a job that a platform has accepted survives.
        if known := EVENTS.get(callback["event"]):
            yield ShellStep(known, _script(callback["commands"]), callback.get("failurePolicy"))


def _script(commands: list[str]) -> str:
    return "\n".join(commands) + "\n"
