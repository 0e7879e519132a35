"""The collection of evidence about a failed task, in the container where it ran."""

import os
from pathlib import Path

from pai_failure_analysis.evidence import LOG_BYTES, Evidence
from pai_failure_analysis.gpu import find_gpu_faults
from pai_runtime.plugin import Failure, Task, read_logs

LITTLE = 1024 * 1024
"""A disk with less free space, and less than 1 %, counts as full: the last file is often removed."""


def gather_evidence(task: Task, failure: Failure) -> Evidence:
    """Collect all evidence about a failed task."""
    user_log, platform_log = read_logs(task, failure, LOG_BYTES)
    return Evidence(
        exit_code=failure.code if failure.user_code is None else failure.user_code,
        signal=failure.signal,
        outcome=failure.outcome,
        phase=failure.phase,
        plugin=failure.plugin,
        oom_kills=failure.oom_kills,
        disk_full=_is_full(task.folder),
        user_log=user_log,
        platform_log=platform_log,
        gpu=find_gpu_faults(platform_log),
    )


def _is_full(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    # Some file systems count no inodes, or nothing at all, and say that they have none.
    little = min(LITTLE, disk.f_blocks * disk.f_frsize // 100)
    return disk.f_bavail * disk.f_frsize < little or (disk.f_files > 0 and disk.f_favail == 0)
