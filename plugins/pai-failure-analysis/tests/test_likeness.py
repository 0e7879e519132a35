"""The failure that a log is like where no rule matches: a guess, by the words of texts of failures."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.likeness import Words, as_json, learned, likely_rule, shipped_words
from pai_failure_analysis.matching import GENERIC, Matcher
from pai_failure_analysis.rules import shipped_rules

RULES = shipped_rules()
DNS = "puller: the name server has no address for host reg.example"


def likely(log: str) -> str:
    rule = likely_rule(log.encode(), RULES)
    return rule.phrase if rule else ""


@pytest.mark.parametrize(
    ("log", "phrase"),
    [
        (DNS, "DnsFailure"),
        ("store: the quota of the volume is used up, cannot write checkpoint", "DiskQuotaExceeded"),
        ("loader: the image registry asks for a login, pull of layer denied", "ImageNotPulled"),
        ("grumble: whatever it was, so be it", ""),
        ("epoch 1: loss 0.71\nepoch 2: loss 0.64", ""),
        ("saved model", ""),
        ("Saved to /data/out.csv", ""),
        ("elapsed: 12 s", ""),
        ("usage", ""),
        ("", ""),
    ],
)
def test_words_that_no_rule_knows_are_like_those_of_a_failure_or_of_none(log: str, phrase: str) -> None:
    assert Matcher(RULES).first_match(Evidence(1, None, user_log=log.encode())) is None
    assert likely(log) == phrase


def test_what_was_printed_on_the_way_makes_no_difference() -> None:
    source = '  File "/a/b.py", line 7, in disk_quota\n    cuda.out_of_memory(segmentation_fault)\n'
    steps = "".join(f"epoch {number}: loss 0.5, accuracy 0.7\n" for number in range(50))
    for log in (f"{steps}{DNS}\n", f"[rank0]: {DNS}", f"{source * 30}{DNS}"):
        assert likely(log) == "DnsFailure"
    failed = f"error in step 3: {DNS}"
    assert likely(failed + "\n  checkpoint: 0\n  key: value" * 8) == "DnsFailure"


def test_what_is_learned_are_the_words_by_which_failures_differ() -> None:
    words = learned([("Stuck", b"gears are stuck"), ("Lost", b"keys are lost"), ("Lost", b"lost: all keys")])
    assert words == Words(**json.loads(as_json(words)))
    assert words.most_like(b"the gears are stuck again")[0] == "Stuck"
    name, probability = words.most_like(b"all lost keys")
    assert name == "Lost"
    assert 0.5 < probability <= 1
    assert words.most_like(b"we wish you a very happy birthday") == ("", 0)
    assert Words({}, {}, {}).most_like(b"gears are stuck") == ("", 0)


def test_what_is_only_a_kind_of_failure_is_no_guess() -> None:
    words = shipped_words()
    heaviest = sorted(words.own["CoreDumped"], key=words.own["CoreDumped"].__getitem__)[-12:]
    log = " ".join(["error:", *heaviest])
    assert words.most_like(log.encode())[0] == "CoreDumped"
    assert likely(log) == ""


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_log_is_too_strange_and_no_guess_is_only_a_kind_of_failure(log: bytes) -> None:
    rule = likely_rule(log, RULES)
    assert rule is None or rule.phrase not in GENERIC


@given(st.lists(st.tuples(st.sampled_from("AB"), st.binary(max_size=50)), max_size=5), st.binary(max_size=50))
def test_whatever_was_learned_gives_a_probability(texts: list[tuple[str, bytes]], log: bytes) -> None:
    name, probability = learned(texts).most_like(log)
    assert math.isfinite(probability)
    assert (name in ("A", "B") and 0 < probability <= 1) or (name, probability) == ("", 0)
