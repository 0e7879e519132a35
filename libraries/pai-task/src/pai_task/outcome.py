"""The result of a task: its outcome, and failed callbacks."""

from __future__ import annotations

import time

from pai_task.record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_task.analysis import Analysis
    from pai_task.plan import UseRecord
    from pai_task.vocabulary import CutShort, Outcome, Phase


@record(frozen=True)
class Result:
    """The result of a task so far, as told to callbacks and written to the exit record.

    `code` is the task's exit code, `user_code` the command's own (None: it did not run), `phase` where the
    outcome was decided, `failed` the use that decided it, `analysis` why it failed, `decided_at` when
    (seconds since 1970).
    """

    outcome: Outcome
    code: int
    phase: Phase
    user_code: int | None = None
    signal: int | None = None
    failed: UseRecord | None = None
    message: str = ""
    analysis: Analysis | None = None
    decided_at: float = field(default_factory=time.time, compare=False)


@record(frozen=True)
class CallbackFailure:
    """A callback that failed after the command; it is reported beside the result.

    `cut_short` says that it failed because the runtime stopped or skipped it.
    """

    use: UseRecord
    phase: Phase
    code: int
    cut_short: CutShort | None = None


def how_it_failed(code: int, cut_short: CutShort | None) -> str:
    """Describe how a step failed."""
    if cut_short is not None:
        return f"was {cut_short}, as the task had to end"
    return f"ended with exit code {code}"
