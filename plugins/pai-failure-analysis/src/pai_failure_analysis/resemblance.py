"""A guess at the cause of a failure that no rule explains: that of known logs with the same words.

The words that speak for a rule are learned by ``tools/learn_words.py`` from logs whose cause is known.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from pathlib import Path

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.last_words import last_words, lived_with
from pai_failure_analysis.matching import LONGEST_MATCH, Found, Match, searchable
from pai_failure_analysis.plain_lines import plain
from pai_failure_analysis.rules import SHIPPED, Pattern, Rule
from pai_runtime.plugin import likely_line

LEARNED = "words.json"
"""The file with what each word weighs for the rules that it speaks for: ``{word: {phrase: weight}}``."""

GUESSED = "?"
"""What stands behind the phrase of a guess."""

END_BYTES = 3000
"""Bytes at the end of a log whose words count."""

LEAST = 60.0
LEAST_WORDS = 8
"""The least resemblance, and number of words in common, for a guess: of those in 278 logs that nothing was
learned from, 8 of 14 were right.
"""

_PERHAPS = "No rule explains this failure. By the words of its log it is perhaps this one:"

_SEPARATE = re.compile(r"0x[0-9a-fA-F]+|(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[a-z_]{2,}")


def words(log: bytes) -> set[str]:
    """Return the words at the end of a log, those in ``ConnectionError`` and the like apart, and each two
    that are neighbours in a line.
    """
    text = plain(log[-2 * END_BYTES :])[-END_BYTES:].decode("utf-8", "ignore")
    found: set[str] = set()
    for line in _SEPARATE.sub(" ", text).lower().splitlines():
        own = _WORD.findall(line)
        found.update(own, map(" ".join, pairwise(own)))
    return found


def likeliest(rules: Sequence[Rule], evidence: Evidence) -> Match | None:
    """Return a guess: a shipped rule with the command's own exit code, and the likely line of the user's log.

    None if the command has not failed by itself, no line stands out, or the log is too unlike known ones.
    """
    if evidence.outcome != "failed" or evidence.phase != "command" or not evidence.exit_code:
        return None
    log = searchable(evidence.user_log)
    likely = _likely(log)
    if likely is None or lived_with(evidence.exit_code, log, likely.start, likely.start):
        return None
    phrase = _phrase(words(log))
    known = next((rule for rule in rules if rule.phrase == phrase and rule.source == SHIPPED), None)
    if known is None:
        return None
    guess = known._replace(
        code=evidence.exit_code,
        phrase=f"{known.phrase}{GUESSED}",
        behavior="UNKNOWN",
        reason=f"{_PERHAPS} {known.reason}",
        because_of_peer=False,
    )
    return Match(guess, Pattern(), likely, is_guess=True)


def _phrase(found: set[str]) -> str | None:
    learned = json.loads(Path(__file__).with_name(LEARNED).read_bytes())
    weights: Counter[str] = Counter()
    in_common: Counter[str] = Counter()
    for word in found & learned.keys():
        weights.update(learned[word])
        in_common.update(learned[word].keys())
    ((phrase, weight),) = weights.most_common(1) or [("", 0)]
    enough = in_common[phrase] >= LEAST_WORDS and weight / sqrt(len(found)) >= LEAST
    return phrase if enough else None


def _likely(log: bytes) -> Found | None:
    """Return the line among the last words of a log that most likely says why its program failed."""
    begin = log.rfind(b"\n", 0, max(last_words(log), len(log) - END_BYTES)) + 1
    lines = log[begin:].split(b"\n")
    likely = likely_line([line.decode("utf-8", "ignore") for line in lines])
    if likely is None:
        return None
    start = begin + sum(len(line) + 1 for line in lines[:likely])
    return Found(start, start + len(lines[likely]), lines[likely][:LONGEST_MATCH].decode("utf-8", "ignore"))
