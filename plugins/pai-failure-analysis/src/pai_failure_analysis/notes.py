"""What the log of a program shows that is no failure, and that somebody would want to know."""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """A note: `start` is the index in the log of the line that shows it, `phrase` its name."""

    phrase: str
    text: str
    start: int


MOST_OVERFLOWS = 20
"""Number of steps skipped for overflow, to the end of the log, that are no longer a search for a scale."""

_LOSS = re.compile(rb"loss['\"]?\s{0,3}[:=]?\s{0,3}(?:(nan|[-+]?inf)\b|[-+]?\.?\d)", re.IGNORECASE)
_NOT_FINITE = re.compile(rb"loss['\"]?\s{0,3}[:=]?\s{0,3}(?:nan|[-+]?inf)\b", re.IGNORECASE)
_STEP = re.compile(rb"\b((?:global_?)?step|iter(?:ation)?|epoch)\b['\"]?\D{0,3}(\d{1,12})", re.IGNORECASE)
_OVERFLOW = re.compile(rb"Gradient overflow\.  ?Skipping step|OVERFLOW! (?:Rank \d+ )?Skipping step")
_OF_STEPS = re.compile(rb"\bloss\b", re.IGNORECASE)

_SAID = (
    (
        "NoLoaderWorkers",
        "The data loader has no worker processes, so the GPU waits while data is read: raise num_workers.",
        re.compile(rb"_dataloader'?,? (?:\d+, )?does not have many workers which may be a bottleneck"),
    ),
    (
        "TrainedOnCpu",
        "The program says that it works on the CPU. If the task has a GPU, it cannot use it.",
        re.compile(
            rb"GPU available: True(?: \(\w+\))?, used: False|No GPU/TPU found, falling back to CPU"
            rb"|Could not find cuda drivers on your machine, GPU will not be used"
            rb"|CUDA initialization: [^\n]{0,300}"
            rb"|CUDA is not available[^\n]{0,20} (?:using|falling back to) (?:the )?CPU"
        ),
    ),
)


def notes(log: bytes) -> Iterator[Note]:
    """Yield what a log shows beside any failure."""
    for found in (_without_loss(log), _without_progress(log)):
        if found:
            yield found
    for phrase, text, expression in _SAID:
        if said := expression.search(log):
            yield Note(phrase, text, said.start())


def _without_loss(log: bytes) -> Note | None:
    """Return the note about a loss that is NaN or infinite from some line on, to the end."""
    if not _NOT_FINITE.search(log):
        return None
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
    skipped = list(_OVERFLOW.finditer(log))
    if len(skipped) < MOST_OVERFLOWS:
        return None
    last = skipped[-MOST_OVERFLOWS:]
    lines = log.count(b"\n", last[0].start())
    if lines > 2 * MOST_OVERFLOWS or len(_OF_STEPS.findall(log, last[0].start())) > 2 * MOST_OVERFLOWS:
        return None
    text = (
        f"The gradients overflowed in each of the last {MOST_OVERFLOWS} steps, which were skipped: use bf16."
    )
    return Note("GradientsOverflow", text, last[0].start())
