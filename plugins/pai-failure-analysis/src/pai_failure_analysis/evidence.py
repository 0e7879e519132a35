"""What is known of a task that did not end well."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LOG_BYTES = 10 * 1024 * 1024
"""How much of the end of a log is searched."""


@dataclass(frozen=True)
class Evidence:
    """What rules are held against.

    `exit_code` is the command's (the task's if it did not run), `plugin` the id of the one that failed the
    setup, `oom_kills` how many processes the kernel's OOM killer ended (None: not known). `gpu` may have
    `nvidiaDoubleEccError` and `nvidiaGpuLost`, true, and `nvidiaXid`, a list of numbers.
    """

    exit_code: int | None = None
    signal: int | None = None
    outcome: str = "failed"
    phase: str = "command"
    plugin: str | None = None
    oom_kills: int | None = None
    disk_full: bool = False
    user_log: bytes = b""
    platform_log: bytes = b""
    gpu: Mapping[str, Any] = field(default_factory=dict)
