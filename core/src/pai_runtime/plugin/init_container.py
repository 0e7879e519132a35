"""The argument of the hook `pai_init_container`: the init container of a pod."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass as record
    from pathlib import Path
    from typing import Any
else:
    from pai_runtime.task.record import record


@record(frozen=True)
class InitContainer:
    """The init container that an init plugin runs in, as the cluster has configured it.

    `name` is the name under which the plugin is configured there, `parameters` match the schema in its
    manifest. `folder` is the directory that the pod's containers share, and the only one to write to;
    ``PAI_RUNTIME_DIR`` and the other directories below it are in `environment`, the container's variables
    with the defaults of those that are unset. Lines that are appended to the file ``env`` in
    ``PAI_RUNTIME_DIR`` set variables for the task, in the format of ``$PAI_ENV``. `say` adds a line to
    ``init.log``.
    """

    name: str
    parameters: Mapping[str, Any]
    folder: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
