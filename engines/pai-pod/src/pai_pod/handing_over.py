"""From the plan of a pod's task to all that its container needs to run it, but for the bundle."""

import json
from collections.abc import Iterator, Mapping

from pai_pod.code import DIGEST_VARIABLE, given_code
from pai_pod.errors import InitFailed
from pai_pod.handover import Handover, hand_over
from pai_pod.init_process import run_init_steps
from pai_pod.pod_secrets import platform_secrets
from pai_pod.steps import PlatformJob, Pod
from pai_pod.volume import open_to_all
from pai_task.exit_codes import INIT_FAILED
from pai_task.folder import Folder
from pai_task.layout import PLAN, SHARED, WORK
from pai_task.placeholders import platform_path
from pai_task.plan import PLATFORM, Plan, Variable
from pai_task.record_json import to_json
from pai_task.variables import Setting, parse_settings

_ENVIRONMENT = "env"
_MOST_BYTES = 1024 * 1024


def hand_over_task(pod: Pod, plan: Plan, secrets: Mapping[str, str], platform: PlatformJob | None) -> None:
    """Prepare the task for its container. Raises `InitFailed`, `InvalidInput` or OSError."""
    pod.runtime.make(WORK)
    _write(pod.runtime, PLAN, plan.to_json(whole=False))
    _write(pod.runtime, SHARED, to_json(plan.shared))
    asked = {name for use in plan.uses for name in use.secrets}
    tasks = sum(plan.instances.values())
    of_platform = platform_secrets(pod.directories, platform.attempt if platform else "", tasks, asked)
    secrets = {**secrets, **{platform_path(name): value for name, value in of_platform.items()}}
    digest = pod.environment.get(DIGEST_VARIABLE, "")
    code = given_code(pod.directories.packed_code, digest, pod.directories.volume)
    if plan.steps_of("init"):
        run_init_steps(pod, secrets, code)
    has_tai64n_names = platform is not None and platform.has_tai64n_names
    hand_over(pod.runtime, Handover(str(pod.directories.logs), secrets, has_tai64n_names))
    open_to_all(pod.runtime)
    if code is not None:
        with Folder.at(code, follow=False) as folder:
            open_to_all(folder)


def left_variables(pod: Pod) -> Iterator[Variable]:
    """Return the variables that init plugins have left for the task."""
    if not pod.runtime.exists(_ENVIRONMENT):
        return
    where = pod.directories.runtime / _ENVIRONMENT
    try:
        text = pod.runtime.read(_ENVIRONMENT, _MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise InitFailed(INIT_FAILED, f"{where}: invalid UTF-8") from None
    for setting in parse_settings(text):
        if isinstance(setting, Setting) and not setting.is_path_entry:
            yield Variable(setting.name, setting.value, PLATFORM)
        else:
            what = "PATH+= has no meaning there" if isinstance(setting, Setting) else setting
            raise InitFailed(INIT_FAILED, f"{where}: {what}")


def _write(folder: Folder, name: str, document: object) -> None:
    folder.write(name, json.dumps(document, ensure_ascii=False) + "\n", sync=False)
