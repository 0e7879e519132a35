"""The init step that plans the task of the pod, with what plugins contribute."""

from pai_pod.errors import InitFailed
from pai_pod.given_run import engine_variables
from pai_pod.placement import UnknownTask, own_task, peers_placement, single_placement
from pai_pod.steps import Addresses, LoadedJob, PlannedTask, PlatformJob, Pod
from pai_runtime.job.model import Job
from pai_runtime.plan.build import Draft, Planner
from pai_runtime.plan.environment import Placement, TaskName
from pai_task.exit_codes import INIT_FAILED


def run(
    pod: Pod, loaded: LoadedJob, platform: PlatformJob | None, addresses: Addresses | None
) -> PlannedTask:
    """Ask each use of a plugin for what it contributes to the plan of this pod's task."""
    job = loaded.job
    try:
        own = platform.task(job, pod) if platform else own_task(job, pod.environment)
        placement = _placement(pod, job, own, platform, addresses)
    except UnknownTask as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    draft = Planner(job, pod.host, loaded.roles, placement, pod.problems).draft(own)
    pod.problems.check()
    pod.log.say(f"the task is {draft.role}-{draft.index}; plugins: {_plugins(draft)}")
    return PlannedTask(draft)


def _placement(
    pod: Pod, job: Job, own: TaskName, platform: PlatformJob | None, addresses: Addresses | None
) -> Placement:
    folder = str(pod.directories.runtime)
    if pod.peers:
        known = addresses.by_task if addresses else {}
        variables = engine_variables(pod.peers, own, pod.environment)
        return peers_placement(job, pod.peers, known, folder, {own: variables})
    return platform.placement(job, pod) if platform else single_placement(job, pod.environment, folder)


def _plugins(draft: Draft) -> str:
    return ", ".join(f"{use.name} ({use.distribution} {use.version})" for use in draft.uses) or "none"
