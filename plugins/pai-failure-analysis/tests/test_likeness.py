"""The failure that a log is like which no rule knows: a guess, by the words of texts of failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.likeness import Words, learned, likely_rule
from pai_failure_analysis.matching import GENERIC, Matcher
from pai_failure_analysis.rules import shipped_rules

RULES = shipped_rules()


def likely(log: str | bytes) -> str:
    rule = likely_rule(log.encode() if isinstance(log, str) else log, RULES)
    return rule.phrase if rule else ""


@pytest.mark.parametrize(
    ("log", "phrase"),
    [
        ("puller: the name server has no address for host reg.example", "DnsFailure"),
        ("stage 3: gpu memory exhausted while allocating activations", "TensorflowOutOfMemory"),
        ("store: the quota of the volume is used up, cannot write checkpoint", "DiskQuotaExceeded"),
        ("loader: the image registry asks for a login, pull of layer denied", "ImageNotPulled"),
        (
            "batcher: the queue rejected this job: wall time above the limit",
            "SlurmTimeLimit",
        ),
        ("simulator: cannot go on: code 7: no licence", ""),
        ("epoch 1: loss 0.71\nepoch 2: loss 0.64", ""),
        ("", ""),
    ],
)
def test_words_that_no_rule_knows_are_like_those_of_a_failure_or_of_none(log: str, phrase: str) -> None:
    evidence = Evidence(1, None, user_log=log.encode())
    assert Matcher(RULES).first_match(evidence) is None
    assert likely(log) == phrase


def test_what_was_printed_on_the_way_makes_no_difference() -> None:
    message = "puller: the name server has no address for host reg.example"
    assert likely(f"{'epoch 3: loss 0.5, accuracy 0.7' * 50}\n{message}\n\nbye\n") == "DnsFailure"
    assert likely(f"[rank0]: {message}") == "DnsFailure"
    source = '  File "/a/b.py", line 7, in disk_quota\n    cuda.out_of_memory(segmentation_fault)\n'
    assert likely(f"{source * 30}{message}") == "DnsFailure"


def test_what_is_only_a_kind_of_failure_is_no_guess() -> None:
    learned_of_kinds = learned([(name, b"gears are stuck") for name in GENERIC])
    assert learned_of_kinds.most_like(b"gears are stuck") == ""


def test_the_more_of_its_words_are_known_the_more_a_log_is_like_a_failure() -> None:
    words = learned([("Stuck", b"gears are stuck"), ("Lost", b"keys are lost"), ("Lost", b"lost: all")])
    assert words.most_like(b"stuck are the gears") == "Stuck"
    assert words.most_like(b"lost keys") == "Lost"
    assert words.most_like(b"we wish you all a very happy birthday my dear old friend") == ""
    assert Words({}, {}).most_like(b"gears are stuck") == ""


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_log_is_too_strange(log: bytes) -> None:
    assert likely(log) in {"", *(rule.phrase for rule in RULES)}
