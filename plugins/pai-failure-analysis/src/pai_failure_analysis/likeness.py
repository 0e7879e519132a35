"""The failure that the end of a log is most like, by its words: a guess, where no rule matches.

It is a naive Bayes classifier over words that weigh the more, the fewer texts have them (tf-idf). All
failures are taken to be equally frequent.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import exp, hypot, log
from pathlib import Path
from typing import NamedTuple

from pai_failure_analysis.last_words import LINE_OF_ERROR
from pai_failure_analysis.matching import GENERIC
from pai_failure_analysis.plain_lines import plain
from pai_failure_analysis.rules import Rule

LEARNED = "words.json"
"""The file with what is learned from texts of failures; written by ``tools/reference.py``."""

LEAST = 0.12
"""The least probability of a guess, as the classifier has it."""

_SMOOTHING = 0.05
"""What each failure has of each word, beside the words of its texts."""

_LEAST_WORD = 0.45
"""The least sum of a word's weights in the texts of a failure that counts."""

_LINES = 8
_MOST_BYTES = 64 * 1024
"""Number of lines about errors at the end of a log whose words count (of others, if there are none), and
bytes that have them."""

_FRAME = re.compile(rb'(?m)^ +File "[^\n]*\n(?: {4}[^\n]*\n)?')
_PROGRESS = re.compile(rb"(?i)\b(?:epoch|loss|step|it/s)\b")
_LETTER = re.compile(rb"[A-Za-z]")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[a-z]+|0")


class Words(NamedTuple):
    """What was learned of words.

    `weights` has the weight of each word, `failures` by their names the logarithm of the probability of a
    word that their texts do not have, and how much larger it is for those that they have.
    """

    weights: Mapping[str, float]
    failures: Mapping[str, tuple[float, Mapping[str, float]]]

    def most_like(self, text: bytes) -> tuple[str, float]:
        """Return the name of the failure that the end of a log is most like, and its probability."""
        words = _weighed(Counter(_words(text)), self.weights)
        if not words:
            return "", 0.0
        total = sum(words.values())
        likely = {
            name: total * other + sum(weight * own[word] for word, weight in words.items() if word in own)
            for name, (other, own) in self.failures.items()
        }
        best = max(likely, key=likely.__getitem__)
        return best, 1 / sum(exp(each - likely[best]) for each in likely.values())


def likely_rule(text: bytes, rules: Iterable[Rule]) -> Rule | None:
    """Return the rule for the failure that the end of a log is like; None if it is like none."""
    name, probability = Words(**json.loads(Path(__file__).with_name(LEARNED).read_bytes())).most_like(text)
    if name in GENERIC or probability < LEAST:
        return None
    return next((rule for rule in rules if rule.phrase == name), None)


def learned(texts: Iterable[tuple[str, bytes]]) -> Words:
    """Return what there is to learn from texts, each with the name of the failure that it shows."""
    counted = [(name, Counter(_words(text))) for name, text in texts]
    documents = [(name, words) for name, words in counted if words]
    having = Counter(word for _, words in documents for word in words)
    weights = {word: round(log((1 + len(documents)) / (1 + count)) + 1, 2) for word, count in having.items()}
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, words in documents:
        for word, weight in _weighed(words, weights).items():
            sums[name][word] += weight
    failures = {name: _of_failure(sums[name], len(weights)) for name in sorted(sums)}
    kept = sorted({word for _, own in failures.values() for word in own})
    return Words({word: weights[word] for word in kept}, failures)


def as_json(words: Words) -> str:
    """Return the text of the file `LEARNED`, a failure on each line."""
    lines = [f"{json.dumps(name)}:{_json(own)}" for name, own in words.failures.items()]
    return f'{{"weights":{_json(words.weights)},\n"failures":{{\n' + ",\n".join(lines) + "\n}}\n"


def _of_failure(weights: Mapping[str, float], words: int) -> tuple[float, Mapping[str, float]]:
    """Return what `Words` has of a failure, by the sums of its words' weights and the number of all words."""
    other = log(_SMOOTHING / (sum(weights.values()) + _SMOOTHING * words))
    own = {word: log(1 + weight / _SMOOTHING) for word, weight in weights.items() if weight >= _LEAST_WORD}
    return round(other, 2), {word: round(own[word], 1) for word in sorted(own)}


def _words(text: bytes) -> list[str]:
    end = _FRAME.sub(b"", plain(text[-_MOST_BYTES:]))
    lines = [line for line in end.split(b"\n") if _LETTER.search(line) and not _PROGRESS.search(line)]
    of_errors = [line for line in lines if LINE_OF_ERROR.match(line)]
    said = b"\n".join((of_errors or lines)[-_LINES:]).decode("utf-8", "replace")
    return _WORD.findall(_NUMBER.sub("0", _BETWEEN_WORDS.sub(" ", said)).lower())


def _weighed(words: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of known words, by how often each is there: a part of a vector of length 1.

    The others are taken to be rare: the more of them, the less a text says.
    """
    rarest = max(weights.values(), default=0)
    own = {word: (1 + log(count)) * weights.get(word, rarest) for word, count in words.items()}
    length = hypot(*own.values()) or 1
    return {word: weight / length for word, weight in own.items() if word in weights}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
