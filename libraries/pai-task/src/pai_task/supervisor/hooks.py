"""Calls of a plugin's hooks, in a process that runs a program chosen by the engine."""

from __future__ import annotations

import os

from pai_task import placeholders
from pai_task.bundle import OWN_VARIABLES, is_obeyed
from pai_task.fast_json import dumps
from pai_task.record_json import to_json
from pai_task.supervisor.spawning import CannotStart, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pai_task.plan import Step
    from pai_task.supervisor.task import Inputs


_LEADING = ("HOME", "LD_LIBRARY_PATH", "PATH", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME")
_SETTINGS = "/.config"
"""The directory for settings in a home directory; beside it are files, at which nothing is mounted."""


def hook_program(
    inputs: Inputs,
    step: Step,
    environment: Mapping[str, str],
    files: Mapping[str, int],
    failure: Mapping[str, Any] | None = None,
    record: str | None = None,
    *,
    has_succeeded: bool | None = None,
) -> Program:
    """Return the program that calls a step's hook; `files` to write to are keyed by their variables.

    Its standard input is a JSON object with all that it has to know: nothing is read from the task's folder,
    which the task can write. `failure` is for the hook that explains failures,
    `record`, the exit record so far, for those that run at the end, and `has_succeeded` for those that run at
    the end of the run. Raises `CannotStart`.
    """
    options = inputs.options
    if not options.hook_argv:
        raise CannotStart("the launch options do not say how hooks are called (hookArgv)")
    environment = _without_storages(environment, [planned.mount.path for planned in inputs.plan.mounts])
    environment |= {name: f"/proc/self/fd/{fd}" for name, fd in files.items()}
    # Without what puts other code into its process; it sets that again for what it starts.
    own = {name: value for name, value in environment.items() if not is_obeyed(name)}
    own["LC_ALL"] = OWN_VARIABLES["LC_ALL"]
    if not os.path.isfile("/etc/localtime"):  # perhaps a FIFO, at which it would wait
        own["TZ"] = OWN_VARIABLES["TZ"]
    if options.certificates and "SSL_CERT_DIR" not in own:
        own.setdefault("SSL_CERT_FILE", options.certificates)
    given = {**_given(inputs, step), "environment": environment, "failure": failure, "record": record}
    given["hasSucceeded"] = has_succeeded
    argv = [*options.hook_argv, str(step.hook)]
    return Program(argv, own, dumps(given).encode(), tuple(files.values()))


def _without_storages(environment: Mapping[str, str], mounts: Sequence[str]) -> dict[str, str]:
    """Return the variables without paths inside mounted storages that lead to programs or their settings.

    Whoever can write to a storage must not decide what a hook starts: hooks may have secrets.
    """
    kept, mounted = dict(environment), [os.path.realpath(path) for path in mounts]
    for name in _LEADING if mounted else ():
        below = _SETTINGS if name == "HOME" else ""
        paths = kept.pop(name, "").split(":")
        if paths := [
            path for path in paths if path and not _overlaps(os.path.realpath(path + below), mounted)
        ]:
            kept[name] = ":".join(paths)
    return kept


def _overlaps(path: str, mounted: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{each}/") or f"{each}/".startswith(f"{path}/") for each in mounted)


def _given(inputs: Inputs, step: Step) -> dict[str, Any]:
    plan = inputs.plan
    use = plan.uses[step.use]
    named = placeholders.paths(use.parameters) | set(map(placeholders.platform_path, use.secrets))
    return {
        "secrets": {path: value for path, value in inputs.secrets.items() if path in named},
        "use": to_json(use),
        "task": {
            "job": plan.job,
            "role": plan.role,
            "index": plan.index,
            "instances": dict(plan.instances),
            "ports": dict(plan.ports),
            "folder": plan.folder,
            "gang": plan.gang,
        },
        "refused": list(plan.refused),
        "rules": [{"plugin": plan.uses[each.use].plugin, "rule": each.rule} for each in plan.exit_rules],
    }
