"""The failure that the end of a log is most like, by its words: a guess, where no rule matches.

It is a naive Bayes classifier over words that weigh the more, the fewer texts have them (tf-idf). All
failures are taken to be equally frequent.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from math import exp, hypot, log
from pathlib import Path
from typing import NamedTuple

from pai_failure_analysis.last_words import LINE_OF_ERROR
from pai_failure_analysis.matching import GENERIC
from pai_failure_analysis.plain_lines import plain
from pai_failure_analysis.rules import Rule

LEARNED = "words.json"
"""The file with what is learned from texts of failures; written by ``tools/reference.py``."""

LEAST, LEAST_OTHERWISE = 0.12, 0.2
"""The minimum probability, as the classifier computes it, of a guess by lines about errors, and by others."""

_SMOOTHING = 0.05
"""Additive smoothing: added to the weight of every word for every failure."""

_LEAST_WORD = 0.45
"""A word is kept for a failure if its weights in the texts of that failure add up to at least this."""

_FEWEST_WORDS = 3
"""Fewer different words that are known say nothing."""

_LINES = 8
"""How many lines are used: the last ones about errors or, if no line is about an error, the last ones."""

_MOST_BYTES = 64 * 1024
"""How many bytes at the end of a log are searched for these lines."""

_FRAME = re.compile(rb'(?m)^ +File "[^\n]*\n(?: {4}[^\n]*\n)?')
_PROGRESS = re.compile(rb"(?i)\b(?:epoch|loss|step|it/s)\b")
_LETTER = re.compile(rb"[A-Za-z]")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[a-z]+|0")


class Words(NamedTuple):
    """What was learned of words.

    `weights` has the weight of each word. By the names of failures, `others` has the logarithm of the
    probability of a word that their texts do not have, `own` how much larger it is for those that they have.
    """

    weights: Mapping[str, float]
    others: Mapping[str, float]
    own: Mapping[str, Mapping[str, float]]

    def most_like(self, said: bytes) -> tuple[str, float]:
        """Return the name of the failure that lines are most like, and its probability."""
        words = _weighed(Counter(_words(said)), self.weights, max(self.weights.values(), default=0))
        if len(words) < _FEWEST_WORDS:
            return "", 0.0
        total = sum(words.values())
        likely = {
            name: total * other + sum(weight * own[word] for word, weight in words.items() if word in own)
            for (name, other), own in zip(self.others.items(), self.own.values(), strict=True)
        }
        best = max(likely, key=likely.__getitem__)
        return best, 1 / sum(exp(each - likely[best]) for each in likely.values())


@cache
def shipped_words() -> Words:
    """Return what was learned when `LEARNED` was written, cached for the tasks of a run."""
    return Words(**json.loads(Path(__file__).with_name(LEARNED).read_bytes()))


def likely_rule(text: bytes, rules: Iterable[Rule]) -> Rule | None:
    """Return the rule for the failure that the end of a log is like; None if it is like none."""
    said, is_about_errors = _last_lines(text)
    name, probability = shipped_words().most_like(said)
    if name in GENERIC or probability < (LEAST if is_about_errors else LEAST_OTHERWISE):
        return None
    return next((rule for rule in rules if rule.phrase == name), None)


def learned(texts: Iterable[tuple[str, bytes]]) -> Words:
    """Return what there is to learn from texts, each with the name of the failure that it shows."""
    counted = [(name, Counter(_words(_last_lines(text)[0]))) for name, text in texts]
    documents = [(name, words) for name, words in counted if words]
    having = Counter(word for _, words in documents for word in words)
    weights = {word: round(log((1 + len(documents)) / (1 + count)) + 1, 2) for word, count in having.items()}
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, words in documents:
        for word, weight in _weighed(words, weights, 0).items():  # all are known
            sums[name][word] += weight
    names, known = sorted(sums), len(weights)
    others = {name: log(_SMOOTHING / (sum(sums[name].values()) + _SMOOTHING * known)) for name in names}
    own = {name: _of_failure(sums[name]) for name in names}
    kept = sorted({word for words in own.values() for word in words})
    return Words(
        {word: weights[word] for word in kept}, {name: round(others[name], 2) for name in names}, own
    )


def as_json(words: Words) -> str:
    """Return the text of the file `LEARNED`, a failure on each line of the last part."""
    own = ",\n".join(f"{json.dumps(name)}:{_json(each)}" for name, each in words.own.items())
    return f'{{"weights":{_json(words.weights)},\n"others":{_json(words.others)},\n"own":{{\n{own}\n}}}}\n'


def _of_failure(sums: Mapping[str, float]) -> dict[str, float]:
    """Return what `Words.own` has of a failure, by the sums of its words' weights."""
    return {
        word: round(log(1 + sums[word] / _SMOOTHING), 1) for word in sorted(sums) if sums[word] >= _LEAST_WORD
    }


def _last_lines(text: bytes) -> tuple[bytes, bool]:
    """Return the lines at the end of a log that may say why it failed, and whether they are about errors."""
    end = _FRAME.sub(b"", plain(text[-_MOST_BYTES:]))
    lines = [line for line in end.split(b"\n") if _LETTER.search(line)]
    of_errors = [line for line in lines if not line[:1].isspace() and LINE_OF_ERROR.match(line)]
    others = [line for line in lines if not _PROGRESS.search(line)]
    return b"\n".join((of_errors or others)[-_LINES:]), bool(of_errors)


def _words(said: bytes) -> list[str]:
    text = _BETWEEN_WORDS.sub(" ", said.decode("utf-8", "replace"))
    return _WORD.findall(_NUMBER.sub("0", text).lower())


def _weighed(words: Mapping[str, int], weights: Mapping[str, float], unknown: float) -> dict[str, float]:
    """Return the weights of known words, by how often each is there: a part of a vector of length 1.

    The others have the weight `unknown`: the more of them, the less a text says.
    """
    own = {word: (1 + log(count)) * weights.get(word, unknown) for word, count in words.items()}
    length = hypot(*own.values()) or 1
    return {word: weight / length for word, weight in own.items() if word in weights}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
