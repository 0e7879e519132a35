"""What the log of a program shows that is no failure, and that somebody would want to know."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pai_failure_analysis import regex


@dataclass(frozen=True)
class Note:
    """A note: `start` is the index in the log of the line that shows it, `phrase` its name."""

    phrase: str
    text: str
    start: int


MOST_OVERFLOWS = 20
"""Number of steps skipped for overflow, to the end of the log, that are no longer a search for a scale."""

_LOSS = re.compile(rb"loss['\"]?\s{0,3}[:=]?\s{0,3}(?:(nan|[-+]?inf)\b|[-+]?\.?\d)", re.IGNORECASE)
_NOT_FINITE = r"(?i)loss['\"]?\s{0,3}[:=]?\s{0,3}(?:nan|[-+]?inf)\b"
_STEP = re.compile(rb"\b((?:global_?)?step|iter(?:ation)?|epoch)\b['\"]?\D{0,3}(\d{1,12})", re.IGNORECASE)
_OVERFLOW = r"Gradient overflow\.  ?Skipping step|OVERFLOW! (?:Rank \d+ )?Skipping step"
_OF_STEPS = re.compile(rb"\bloss\b", re.IGNORECASE)

_SAID = (
    (
        "NoLoaderWorkers",
        "The data loader has no worker processes, so the GPU waits while data is read: raise num_workers.",
        r"_dataloader'?,? (?:\d+, )?does not have many workers which may be a bottleneck",
    ),
    (
        "TrainedOnCpu",
        "The program says that it works on the CPU. If the task has a GPU, it cannot use it.",
        (
            r"GPU available: True(?: \(\w+\))?, used: False|No GPU/TPU found, falling back to CPU"
            r"|Could not find cuda drivers on your machine, GPU will not be used"
            r"|CUDA initialization: [^\n]{0,300}"
            r"|CUDA is not available[^\n]{0,20} (?:using|falling back to) (?:the )?CPU"
        ),
    ),
)

_ALL = regex.Expressions([_NOT_FINITE, _OVERFLOW, *(expression for _, _, expression in _SAID)])


def notes(log: bytes) -> Iterator[Note]:
    """Yield what a log shows beside any failure."""
    shown = _ALL.found(log)
    if _NOT_FINITE in shown and (note := _without_loss(log)):
        yield note
    if _OVERFLOW in shown and (note := _without_progress(log)):
        yield note
    for phrase, text, expression in _SAID:
        if expression in shown and (start := regex.first(expression, log)) is not None:
            yield Note(phrase, text, start)


def _without_loss(log: bytes) -> Note | None:
    """Return the note about a loss that is NaN or infinite from some line on, to the end."""
    first = None
    for loss in _LOSS.finditer(log):
        first = (first or loss) if loss[1] else None
    if first is None:
        return None
    begin = log.rfind(b"\n", 0, first.start()) + 1
    end = log.find(b"\n", first.end())
    line = log[begin : end if end >= 0 else len(log)]
    step = _STEP.search(line)
    since = f"{step[1].decode().lower()} {step[2].decode()}" if step else "a step without a number"
    kind = "NaN" if first[1].lower() == b"nan" else "infinite"
    return Note(
        "LossNotFinite", f"The loss is {kind} from {since} on: what was trained since is worthless.", begin
    )


def _without_progress(log: bytes) -> Note | None:
    """Return the note about gradients that overflow until the end."""
    skipped = list(regex.starts(_OVERFLOW, log))
    if len(skipped) < MOST_OVERFLOWS:
        return None
    last = skipped[-MOST_OVERFLOWS:]
    lines = log.count(b"\n", last[0])
    if lines > 2 * MOST_OVERFLOWS or len(_OF_STEPS.findall(log, last[0])) > 2 * MOST_OVERFLOWS:
        return None
    text = (
        f"The gradients overflowed in each of the last {MOST_OVERFLOWS} steps, which were skipped: use bf16."
    )
    return Note("GradientsOverflow", text, last[0])
