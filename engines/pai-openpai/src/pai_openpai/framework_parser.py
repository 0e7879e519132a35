"""The init step that reads the Framework which a command has left in the place of the barrier."""

from pai_openpai.framework import MOST_BYTES, BadFramework, read_framework
from pai_openpai.framework_job import FRAMEWORK_FILE, FrameworkJob, framework_uid, without_framework
from pai_pod.errors import InitFailed, missing
from pai_pod.steps import PlatformJob, Pod
from pai_task.exit_codes import INIT_FAILED

skipped = without_framework


def run(pod: Pod, platform: PlatformJob | None) -> PlatformJob | None:
    """Read the Framework object that a command has left; the barrier has read its own."""
    if platform is not None:
        return None
    if not pod.init.exists(FRAMEWORK_FILE):
        raise missing("the Framework object", "frameworkBarrier")
    try:
        framework = read_framework(pod.init.read(FRAMEWORK_FILE, MOST_BYTES), framework_uid(pod))
    except BadFramework as error:
        raise InitFailed(INIT_FAILED, f"the Framework object: {error}") from None
    return FrameworkJob(framework, pod)
