"""The failure that the end of a log is most like, by its words: a guess, where no rule matches.

A word weighs the more, the fewer texts have it (tf-idf). A failure has the mean of the weights in texts of
it, and is as like a log as the cosine between the two says (Rocchio's classifier).
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import hypot, log
from pathlib import Path
from typing import NamedTuple

from pai_failure_analysis.last_words import LINE_OF_ERROR
from pai_failure_analysis.matching import GENERIC
from pai_failure_analysis.plain_lines import plain
from pai_failure_analysis.rules import Rule

LEARNED = "words.json"
"""The file with what `learned` returns, of the samples of the rules and labelled logs; written by
``tools/reference.py``."""

LEAST = 0.24
"""The least likeness of a guess: of such guesses at failures that no rule knew, seven in ten were right."""

_LINES = 8
_MOST_BYTES = 64 * 1024
_MOST_WORDS = 25
"""Number of lines about errors at the end of a log whose words count (of others, if there are none), bytes
that have them, and words of a failure."""

_FRAME = re.compile(rb'(?m)^ +File "[^\n]*\n(?: {4}[^\n]*\n)?')
_PROGRESS = re.compile(rb"(?i)\b(?:epoch|loss|step|it/s)\b")
_LETTER = re.compile(rb"[A-Za-z]")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[a-z]+|0")


class Words(NamedTuple):
    """How much each word weighs, and the weights of the words of each failure, by its name."""

    weights: Mapping[str, float]
    failures: Mapping[str, Mapping[str, float]]

    def most_like(self, text: bytes) -> str:
        """Return the name of the failure that the end of a log is like; empty if it is like none."""
        words = _weighed(Counter(_words(text)), self.weights)
        likeness = {
            name: sum(weight * words[word] for word, weight in own.items() if word in words)
            for name, own in self.failures.items()
        }
        best = max(likeness, key=likeness.__getitem__, default="")
        return best if best not in GENERIC and likeness.get(best, 0) >= LEAST else ""


def likely_rule(text: bytes, rules: Iterable[Rule]) -> Rule | None:
    """Return the rule for the failure that the end of a log is like; None if it is like none."""
    words = Words(**json.loads(Path(__file__).with_name(LEARNED).read_bytes()))
    name = words.most_like(text)
    return next((rule for rule in rules if rule.phrase == name), None)


def learned(texts: Iterable[tuple[str, bytes]]) -> Words:
    """Return what there is to learn from texts, each with the name of the failure that it shows."""
    documents = [(name, Counter(_words(text))) for name, text in texts]
    having = Counter(word for _, words in documents for word in words)
    weights = {word: log((1 + len(documents)) / (1 + count)) + 1 for word, count in having.items()}
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, words in documents:
        sums[name].update(_weighed(words, weights))
    failures = {name: _rounded(_unit(dict(sums[name].most_common(_MOST_WORDS)))) for name in sorted(sums)}
    kept = sorted({word for own in failures.values() for word in own})
    return Words(_rounded({word: weights[word] for word in kept}), failures)


def as_json(words: Words) -> str:
    """Return the text of the file `LEARNED`, a failure on each line."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(own, separators=(',', ':'))}" for name, own in words.failures.items()
    ]
    weights = json.dumps(words.weights, separators=(",", ":"))
    return '{"weights":' + weights + ',\n"failures":{\n' + ",\n".join(lines) + "\n}}\n"


def _words(text: bytes) -> list[str]:
    end = _FRAME.sub(b"", plain(text[-_MOST_BYTES:]))
    lines = [line for line in end.split(b"\n") if _LETTER.search(line) and not _PROGRESS.search(line)]
    of_errors = [line for line in lines if LINE_OF_ERROR.match(line)]
    said = b"\n".join((of_errors or lines)[-_LINES:]).decode("utf-8", "replace")
    return _WORD.findall(_NUMBER.sub("0", _BETWEEN_WORDS.sub(" ", said)).lower())


def _weighed(words: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, float]:
    rarest = max(weights.values(), default=0)
    return _unit({word: (1 + log(count)) * weights.get(word, rarest) for word, count in words.items()})


def _unit(weights: Mapping[str, float]) -> dict[str, float]:
    length = hypot(*weights.values()) or 1
    return {word: weight / length for word, weight in weights.items()}


def _rounded(weights: Mapping[str, float]) -> dict[str, float]:
    return {word: round(weight, 2) for word, weight in weights.items()}
