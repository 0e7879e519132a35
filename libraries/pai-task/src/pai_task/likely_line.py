"""A guess at the line of a log that says why its program failed, for failures that no rule explains."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SEARCHED_LINES = 40
"""Number of lines at the end of a log that are worth a guess."""

GUESSED = "?: a guess at the line that says why, as no rule explains the failure"
"""What a person is told of the line that is marked."""

_HARMLESS = ("warn", "info", "debug", "deprecat", "retry", "loss", "epoch", "it/s", "0 error", "no error")
"""Words of lines that only mention an error, or measure one."""

_REPORTS = (
    *("exit code", "exit status", "exitcode", "exited", "non-zero", "returned ", "traceback", "signal"),
    *("terminating", "closing", "aborting", "see above", "error_file", "*** ["),
)
"""Words of lines that report a failure without its reason."""

_STRONG = ("error:", "exception:", "error]", "fatal", "panic", "critical")
_WEAK = (
    *(
        "error",
        "exception",
        "fail",
        "cannot",
        "can't",
        "could not",
        "couldn't",
        "unable",
        "denied",
        "invalid",
    ),
    *("missing", "not found", "no such", "refused", "timed out", "timeout", "abort", "assert", "corrupt"),
    *(
        "unsupported",
        "not supported",
        "exceed",
        "mismatch",
        "out of",
        "unknown",
        "illegal",
        "killed",
        "crash",
    ),
    *("unexpected", "not enough", "required", "unreachable", "expired"),
)
_FRAMES = ('file "', "^", "~", "at ", "raise ")


def likely_line(lines: Sequence[str]) -> int | None:
    """Return the index of the line that most likely says why a program failed; None if none stands out.

    If several are equally likely, the first is returned: consequences are printed after their cause.
    """
    scores = [_score(line.strip().lower()) for line in lines]
    best = max(scores, default=0)
    return scores.index(best) if best else None


def _score(line: str) -> int:
    if line.startswith(_FRAMES) or any(word in line for word in _HARMLESS):
        return 0
    if not any(word in line for word in _WEAK + _STRONG):
        return 0
    if any(word in line for word in _REPORTS):
        return 1
    return 3 if any(word in line for word in _STRONG) else 2
