"""The guess at the cause of a failure that no rule explains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.matching import first_match
from pai_failure_analysis.resemblance import END_BYTES, likeliest, words
from pai_failure_analysis.rules import shipped_rules
from tools.learn_words import labelled

RULES = shipped_rules()

UNKNOWN = (
    "epoch 3: loss 0.41\n"
    "cannot write checkpoint: the device has no space left, disk full error while writing file\n"
)
"""What no rule knows, in the words of full disks."""


def _evidence(log: str, exit_code: int = 1, outcome: str = "failed") -> Evidence:
    return Evidence(exit_code, outcome=outcome, user_log=log.encode())


def test_a_log_that_no_rule_explains_is_guessed_at_by_its_words() -> None:
    assert first_match(RULES, _evidence(UNKNOWN)) is None
    guess = likeliest(RULES, _evidence(UNKNOWN, 7))
    assert guess
    assert guess.user
    assert guess.is_guess
    rule = guess.rule
    assert (rule.phrase, rule.code, rule.behavior) == ("NoSpaceLeft?", 7, "UNKNOWN")
    assert UNKNOWN.count("\n", 0, guess.user.start) == 1


@pytest.mark.parametrize(
    "evidence",
    [
        _evidence(f"{UNKNOWN}epoch 4: loss 0.39\n"),
        _evidence(UNKNOWN, 0),
        _evidence(UNKNOWN, outcome="timeout"),
        _evidence("cannot write: disk full\n"),
        _evidence("simulator: cannot go on: code 7: no licence\n"),
        _evidence(""),
    ],
    ids=["it went on", "it has not failed", "it took too long", "few words", "other words", "nothing"],
)
def test_there_is_no_guess(evidence: Evidence) -> None:
    assert likeliest(RULES, evidence) is None


def test_only_rules_that_are_tried_are_guessed() -> None:
    assert likeliest([rule for rule in RULES if rule.phrase != "NoSpaceLeft"], _evidence(UNKNOWN)) is None


def test_guesses_are_learned_from_causes_that_there_are() -> None:
    known = {rule.phrase for rule in RULES} | {"nothing"}
    learned = [phrase for phrase, _ in labelled()]
    assert len(learned) > 3000
    assert set(learned) <= known


def test_words_are_those_at_the_end_in_any_form() -> None:
    log = b"old\n" + b" " * 2 * END_BYTES + b"\nConnectionError at 0x7f00: HTTP 503,\x1b[0m retry_count\n"
    assert words(log) == {
        *("connection", "error", "at", "http", "retry_count"),
        *("connection error", "error at", "at http", "http retry_count"),
    }


@given(st.binary(max_size=200))
def test_any_log_has_words(log: bytes) -> None:
    assert all(word == word.lower() for word in words(log))
