"""What a log shows beside a failure: each note has a log that shows it, and others that must not."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_failure_analysis.notes import MOST_OVERFLOWS, notes
from pai_failure_analysis.noting import FIRST_LOOK
from pai_failure_analysis.others_words import in_words_of_origin
from pai_failure_analysis.rules import shipped_rules
from tests.support import cli, exit_record, job, write_job

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


LOGS = [
    (NAN, "LossNotFinite"),
    ("{'loss': inf, 'epoch': 2}\n", "LossNotFinite"),
    ("Loss = -INF\n", "LossNotFinite"),
    ("OVERFLOW! Rank 3 Skipping step. Attempted loss scale: 1\n" * MOST_OVERFLOWS, "GradientsOverflow"),
    (OVERFLOW * MOST_OVERFLOWS, "GradientsOverflow"),
    ("The 'train_dataloader' does not have many workers which may be a bottleneck.\n", "NoLoaderWorkers"),
    ("GPU available: True (cuda), used: False\n", "TrainedOnCpu"),
    ("No GPU/TPU found, falling back to CPU.\n", "TrainedOnCpu"),
    ("Could not find cuda drivers on your machine, GPU will not be used.\n", "TrainedOnCpu"),
    ("UserWarning: CUDA initialization: The NVIDIA driver is too old\n", "TrainedOnCpu"),
    ("CUDA is not available, using CPU\n", "TrainedOnCpu"),
]


@pytest.mark.process
def test_a_task_that_succeeds_has_the_notes_of_its_log_in_its_record_and_the_run_in_its_summary(
    tmp_path: Path,
) -> None:
    worker = {
        "instances": len(LOGS) + 1,
        "commands": [f"cat {tmp_path}/log.$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"],
    }
    for number, (log, _) in enumerate([*LOGS, (STEPS, "")]):
        (tmp_path / f"log.{number}").write_text(log)
    ended = cli("run", write_job(tmp_path, job(worker=worker)), "--plain", "--out", tmp_path / "run")
    assert ended.returncode == 0
    records = [exit_record(tmp_path / f"run/worker/{number}") for number in range(len(LOGS) + 1)]
    said = [[note.partition(":")[0] for note in record.get("notes", [])] for record in records]
    assert said == [*([phrase] for _, phrase in LOGS), []]
    assert "LossNotFinite" in ended.stdout + ended.stderr


@given(st.text(max_size=20), st.sampled_from([log for log, _ in LOGS]), st.text(max_size=20))
def test_the_first_look_finds_every_log_with_a_note(before: str, log: str, after: str) -> None:
    text = (before + log + after).encode()
    seen = re.search(FIRST_LOOK.encode(), text, re.IGNORECASE)
    assert seen or not list(notes(text))


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
