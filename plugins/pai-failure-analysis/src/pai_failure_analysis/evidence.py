"""The evidence about a task that did not end well."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

LOG_BYTES = 10 * 1024 * 1024
"""Maximum bytes at the end of a log that are searched."""


class Evidence(NamedTuple):
    """The facts about a failed task that rules are matched against.

    `exit_code` is the command's (the task's if it did not run), `plugin` the id of the one that failed the
    setup, `oom_kills` how many processes the kernel's OOM killer ended (None: unknown). `gpu` may have
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
    gpu: Mapping[str, Any] = MappingProxyType({})
