"""The handover from init: from the plan of a pod's task to all that its container needs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pai_runtime.pod.built_in import Pod
from pai_runtime.pod.bundle_copy import place_bundle
from pai_runtime.pod.code import given_code
from pai_runtime.pod.handover import Handover, hand_over
from pai_runtime.pod.init_failed import InitFailed
from pai_runtime.pod.init_process import run_init_steps
from pai_runtime.pod.pod_secrets import platform_secrets
from pai_runtime.pod.volume import open_to_all
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import PLAN, SHARED, WORK
from pai_runtime.task.placeholders import platform_path
from pai_runtime.task.plan import PLATFORM, Plan, Variable
from pai_runtime.task.record import replace
from pai_runtime.task.variables import Setting, parse_settings

BUNDLE = "/opt/pai-runtime/bundle"
"""The default path of the bundle in the runtime image; ``PAI_RUNTIME_BUNDLE`` overrides it."""

_ENVIRONMENT = "env"
_MOST_BYTES = 1024 * 1024


def hand_over_task(pod: Pod, plan: Plan, secrets: Mapping[str, str]) -> None:
    """Prepare the task for its container. Raises `InitFailed`, `InvalidInput` or OSError."""
    plan = replace(plan, environment=(*plan.environment, *_left_variables(pod)))
    pod.runtime.make(WORK)
    _write(pod.runtime, PLAN, plan.to_json(whole=False))
    _write(pod.runtime, SHARED, plan.shared.to_json())
    asked = {name for use in plan.uses for name in use.secrets}
    tasks = sum(plan.instances.values())
    of_platform = platform_secrets(pod.directories, pod.environment, tasks, asked)
    secrets = {**secrets, **{platform_path(name): value for name, value in of_platform.items()}}
    code = given_code(pod.directories)
    if plan.steps_of("init"):
        run_init_steps(pod, secrets, code)
    hand_over(pod.runtime, Handover(str(pod.directories.logs), secrets))
    open_to_all(pod.runtime)
    if code is not None:
        with Folder.at(code, follow=False) as folder:
            open_to_all(folder)
    place_bundle(Path(pod.environment.get("PAI_RUNTIME_BUNDLE") or BUNDLE), pod.directories.volume)


def _left_variables(pod: Pod) -> Iterator[Variable]:
    """Yield the variables that init plugins have left for the task. Raises `InitFailed` for invalid ones."""
    if not pod.runtime.exists(_ENVIRONMENT):
        return
    where = pod.directories.runtime / _ENVIRONMENT
    try:
        text = pod.runtime.read(_ENVIRONMENT, _MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise InitFailed(1, f"{where}: invalid UTF-8") from None
    for setting in parse_settings(text):
        if isinstance(setting, Setting) and not setting.is_path_entry:
            yield Variable(setting.name, setting.value, PLATFORM)
        else:
            what = "PATH+= has no meaning there" if isinstance(setting, Setting) else setting
            raise InitFailed(1, f"{where}: {what}")


def _write(folder: Folder, name: str, document: object) -> None:
    folder.write(name, json.dumps(document, ensure_ascii=False) + "\n", sync=False)
