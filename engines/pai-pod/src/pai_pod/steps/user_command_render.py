"""The init step that takes the command of the task from the platform, if it gives one."""

from pai_pod.steps import GivenCommand, LoadedJob, PlannedTask, Pod
from pai_pod.user_command import VARIABLE, user_command


def run(pod: Pod, loaded: LoadedJob, task: PlannedTask) -> GivenCommand | None:
    """Render the command that stands for the one of the plan."""
    script = pod.environment.get(VARIABLE)
    return GivenCommand(user_command(script, loaded.job, task.draft.role, pod.problems)) if script else None
