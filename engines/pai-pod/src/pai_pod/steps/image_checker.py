"""The init step that checks whether the image of the task exists."""

from pai_document.problems import Problems
from pai_pod.errors import InitFailed
from pai_pod.steps import LoadedJob, PlannedTask, Pod
from pai_runtime.job.images import JobImages
from pai_task.exit_codes import INIT_NO_IMAGE


def run(pod: Pod, loaded: LoadedJob, task: PlannedTask) -> None:
    """Raise `InitFailed` if the image of the task certainly does not exist."""
    role = loaded.job.roles[task.draft.role]
    if role.docker_image is None:
        pod.log.say("the image is not checked: the job does not name one")
        return
    from pai_network.deadline import Deadline  # noqa: PLC0415
    from pai_pod.image_check import SECONDS, check_image  # noqa: PLC0415 - with the client of registries

    problems = Problems(pod.problems.mask)
    image = JobImages(loaded.job, problems).of(role)
    if image is None or problems.has_errors or not isinstance(image.uri, str):
        pod.log.say("[WARNING] the image is not checked: the job does not say which it is")
        return
    image = image.filled(loaded.secrets)
    verdict = check_image(image.uri, image.auth, Deadline(SECONDS), pod.log.say)
    if verdict.outcome == "missing":
        raise InitFailed(INIT_NO_IMAGE, verdict.message)
    pod.log.say(f"[WARNING] {verdict.message}" if verdict.outcome == "unknown" else verdict.message)
