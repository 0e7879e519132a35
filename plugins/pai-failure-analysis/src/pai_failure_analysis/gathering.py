"""Gathering the evidence of a failed task, in the container where it ran."""

import os
from itertools import count
from pathlib import Path

from pai_failure_analysis.evidence import LOG_BYTES, Evidence
from pai_failure_analysis.gpu import find_gpu_faults
from pai_runtime.plugin import Failure, Task
from pai_runtime.task.folder import Folder
from pai_runtime.task.layout import RUNTIME_LOG, USER_LOG

LITTLE = 1024 * 1024
"""With fewer bytes left, and less than a hundredth, a disk is full: what is written last is often removed."""


def gather_evidence(task: Task, failure: Failure) -> Evidence:
    """All that can be known of a failed task."""
    user_tail, platform_tail = failure.tails
    platform_log = _end_of_log(task.folder, RUNTIME_LOG, platform_tail)
    return Evidence(
        exit_code=failure.code if failure.user_code is None else failure.user_code,
        signal=failure.signal,
        outcome=failure.outcome,
        phase=failure.phase,
        plugin=failure.plugin,
        oom_kills=failure.oom_kills,
        disk_full=_is_full(task.folder),
        user_log=_end_of_log(task.folder, USER_LOG, user_tail),
        platform_log=platform_log,
        gpu=find_gpu_faults(platform_log),
    )


def _end_of_log(folder: Path, name: str, tail: str) -> bytes:
    """The last bytes of a log over its rotated files, and its `tail` where the files do not have it."""
    text = b""
    for number in count():
        earlier = _end_of_file(folder, f"{name}.{number}" if number else name, LOG_BYTES - len(text))
        text = earlier + text
        if number and not earlier:
            break
    last = tail.encode()
    return text if last in text else text + b"\n" + last


def _end_of_file(folder: Path, name: str, size: int) -> bytes:
    try:
        with Folder.at(folder) as own, os.fdopen(own.open(name), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except OSError:
        return b""


def _is_full(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    # Some file systems count no inodes, or nothing at all, and say that they have none.
    little = min(LITTLE, disk.f_blocks * disk.f_frsize // 100)
    return disk.f_bavail * disk.f_frsize < little or (disk.f_files > 0 and disk.f_favail == 0)
