"""The plugin ``preflight``: checks before the command that the node can run the task.

What is wrong ends the setup, with a line ``preflight: NAME: …`` for each fault; exit rules give it the exit
code that a platform retries, perhaps on another node.
"""

from __future__ import annotations

import os
import sys

from pai_runtime.plugin import Contribution, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_runtime.plugin import Task, Use

_RETRIED = 251
"""The exit code after which OpenPAI waits and tries again; Kubernetes tries again, as after most others."""

_SHM_TOO_SMALL = 247
"""As when data loader workers run out of it."""

_FAULTS = {
    "PreflightDisk": "The disk of the node has less free space than the task needs.",
    "PreflightGpu": "The GPUs of the node do not all answer.",
    "PreflightGpuMemory": "The memory of a GPU has had errors that could not be corrected.",
    "PreflightStorage": "A directory that the task needs could not be written and read.",
}


@hookimpl
def pai_prerequisite(use: Use) -> Contribution:  # noqa: ARG001 - as a hook has it
    """Say what the faults mean."""
    rules = [
        {
            "containerExitCode": _RETRIED,
            "phrase": name,
            "behavior": "TRANSIENT",
            "reason": reason,
            "solution": ["Run the job again, on another node if possible", "Report the node to its operator"],
            "patterns": [{"platformLogRegex": f"preflight: {name}: .*"}],
        }
        for name, reason in _FAULTS.items()
    ]
    shm = {
        "containerExitCode": _SHM_TOO_SMALL,
        "phrase": "PreflightSharedMemory",
        "behavior": "PERMANENT",
        "reason": "The shared memory of the container (/dev/shm) has less free space than the task needs.",
        "solution": ["Request more in the job (extraContainerOptions.shmMB)"],
        "patterns": [{"platformLogRegex": "preflight: PreflightSharedMemory: .*"}],
    }
    return Contribution(exit_rules=[*rules, shm])


@hookimpl
def pai_task_starts(use: Use, task: Task) -> None:
    """Check the node. Exits with 1 if anything is wrong."""
    from pai_preflight.checks import faults  # noqa: PLC0415 - not while planning

    requested = os.environ.get(f"PAI_RESOURCE_{task.role}", "0").partition(",")[0]
    found = faults(use.parameters, int(requested) if requested.isdecimal() else 0)
    for name, text in found:
        sys.stdout.write(f"preflight: {name}: {text}\n")
    if found:
        sys.exit(1)
