"""What a log shows beside a failure: each note has a log that shows it, and others that must not."""

import pytest

from pai_failure_analysis.notes import MOST_OVERFLOWS, notes
from pai_failure_analysis.others_words import in_words_of_origin
from pai_failure_analysis.rules import shipped_rules

STEPS = "".join(f"step {number} loss 0.{number} lr 0.001\n" for number in range(1, 30))
NAN = "".join(f"step {number} loss nan lr 0.001\n" for number in range(30, 60))
OVERFLOW = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 1.0\n"
RULES = {rule.phrase: rule for rule in shipped_rules()}


def found(log: str) -> list[tuple[str, int]]:
    """The phrases of the notes, and the numbers of their lines, from 1."""
    return [(each.phrase, log.encode().count(b"\n", 0, each.start) + 1) for each in notes(log.encode())]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (STEPS, []),
        (f"{STEPS}{NAN}", [("LossNotFinite", 30)]),
        (f"{STEPS}step 30 loss nan lr 1\n{STEPS}", []),
        (f"{STEPS}step 30 loss nan lr 1\n{STEPS}{NAN}", [("LossNotFinite", 60)]),
        ("{'loss': 0.3, 'epoch': 1}\n{'loss': inf, 'epoch': 2}\n", [("LossNotFinite", 2)]),
        ("val_loss improved from inf to 0.3\nloss: 0.2\n", []),
        (f"{STEPS}{OVERFLOW * MOST_OVERFLOWS}", [("GradientsOverflow", 30)]),
        (f"{OVERFLOW * MOST_OVERFLOWS}{STEPS * 3}", []),
        (OVERFLOW * (MOST_OVERFLOWS - 1), []),
        (
            "The 'train_dataloader' does not have many workers which may be a bottleneck.\n",
            [("NoLoaderWorkers", 1)],
        ),
        ("x\nGPU available: True (cuda), used: False\n", [("TrainedOnCpu", 2)]),
        ("GPU available: True (cuda), used: True\nGPU available: False, used: False\n", []),
        ("WARNING:absl:No GPU/TPU found, falling back to CPU.\n", [("TrainedOnCpu", 1)]),
    ],
)
def test_a_log_is_noted_for_what_it_shows(log: str, expected: list[tuple[str, int]]) -> None:
    assert found(log) == expected


def test_the_step_from_which_the_loss_is_no_number_is_named() -> None:
    (note,) = notes(f"{STEPS}{NAN}".encode())
    assert "from step 30 on" in note.text


@pytest.mark.parametrize("phrase", ["HostOomKillerText", "SharedMemoryTooSmall"])
def test_advice_has_the_words_of_where_a_log_came_from(phrase: str) -> None:
    rule = RULES[phrase]
    for log, word in (
        (b"slurmstepd: error: Detected 1 oom_kill event in StepId=1.0\n", "--mem"),
        (b"State: Terminated\n  Reason: OOMKilled\n", "resources.limits.memory"),
    ):
        advice = " ".join(in_words_of_origin(rule, log).solution)
        assert "memoryMB" not in advice
        assert "shmMB" not in advice
        assert word in advice or phrase == "SharedMemoryTooSmall"
    assert in_words_of_origin(rule, b"srun is not what this log is of\n") == rule
