"""The argument of `pai_analyze`: how a task failed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import dataclass as record
    from typing import Any

    from pai_runtime.task.vocabulary import FailedOutcome, Phase
else:
    from pai_runtime.task.record import record


@record(frozen=True)
class ContributedRule:
    """An entry of an exit spec, with the id of the plugin that contributed it."""

    plugin: str
    entry: Mapping[str, Any]


@record(frozen=True)
class Failure:
    """The failure of a task, as far as its supervisor knows.

    `outcome` is ``failed``, ``setup-failed`` or ``timeout``. `code` is the task's exit code so far,
    `user_code` the command's own (None: it did not run), `phase` where the outcome was decided, `signal`
    what killed the command or the step, `plugin` the id of the plugin whose step failed the setup.
    `oom_kills` is how many processes the kernel's out-of-memory killer killed in the task's cgroup while it
    ran (None: not known). `tails` are the last 4 KB of the user's log and of ``runtime.log``, for
    `read_logs`; `logs` is the directory of the logs (None: ``logs`` in the task's folder). `rules` are the
    exit rules that the job's uses contribute, in order.
    """

    outcome: FailedOutcome
    code: int
    phase: Phase
    user_code: int | None = None
    signal: int | None = None
    plugin: str | None = None
    oom_kills: int | None = None
    tails: tuple[str, str] = ("", "")
    logs: str | None = None
    rules: tuple[ContributedRule, ...] = ()
