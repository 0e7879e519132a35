"""The plugin ``com.microsoft.pai.runtimeplugin.tensorboard``, which runs TensorBoard beside a task."""

import re
import shlex
from collections.abc import Mapping

from pai_runtime.plugin import Contribution, Service, ShellStep, Task, Use, UserError, has_secret, hookimpl
from pai_tensorboard import scripts

READY_WITHIN = 600.0
"""Timeout in seconds for its start, which takes minutes with TensorFlow on a slow file system."""

_VARIABLE = re.compile(r"(\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})", re.ASCII)


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution | None:
    """Contribute a service to the first task of the first role of the use; nothing to others.

    Nothing that happens in the task is allowed to fail it, whatever the failure policy.
    """
    if not use.parameters:  # as the first runtime
        return Contribution(warnings=["it has no effect without logdir, the directory that it is to show"])
    if use.roles[:1] != (task.role,) or task.index:
        return None
    port = _port(use.parameters.get("port"), task.ports)
    folder = str(task.folder / "tensorboard" / str(port))
    logdir = use.parameters["logdir"]
    if isinstance(logdir, str):
        shown, make = _shell_word(logdir), scripts.make_folder(_shell_word(logdir))
    else:
        paths = {name: _shell_word(path) for name, path in logdir.items()}
        shown, make = shlex.quote(f"{folder}/runs"), scripts.make_linked_folders(paths, f"{folder}/runs")
    service = Service(
        use.name,
        scripts.serve(shown, port, folder),
        probe=scripts.probe(port, folder),
        ready_within=READY_WITHIN,
        address=f"http://$PAI_CURRENT_CONTAINER_IP:{port}",
        linger=60 * use.parameters.get("linger_minutes", 0),
    )
    make = f"mkdir -p -- {shlex.quote(folder)}\n{make}"
    return Contribution(steps=[ShellStep("taskStarts", make, "ignore")], services=[service])


def _port(given: float | str | None, ports: Mapping[str, tuple[int, ...]]) -> int:
    if isinstance(given, (int, float)):  # to JSON Schema, 6006.0 is a whole number
        return int(given)
    label = given or ("tensorboard" if "tensorboard" in ports else "http")
    if label not in ports:
        raise UserError(f"no port of the task has the label '{label}'; its labels are {', '.join(ports)}")
    return ports[label][0]


def _shell_word(path: str) -> str:
    """Return a path as a shell word in which variables are expanded and nothing else is special."""
    if has_secret(path):
        raise UserError("logdir contains a secret, which TensorBoard would show")
    parts = _VARIABLE.split(path)
    return "".join(
        f'"{part}"' if number % 2 else part and shlex.quote(part) for number, part in enumerate(parts)
    )
