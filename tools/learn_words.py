"""What `pai_failure_analysis.resemblance` knows: the words of logs whose cause somebody has said, by cause.

Each log is a vector of its words, with the weight of a word the greater the fewer logs have it; the words of
a rule are those that weigh most in the sum over its logs (a Rocchio classifier).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import log as ln
from math import sqrt
from pathlib import Path
from typing import Any

import yaml

from pai_failure_analysis.resemblance import words
from pai_failure_analysis.rules import shipped_entries

TESTS = Path(__file__).resolve().parents[1] / "plugins" / "pai-failure-analysis" / "tests"

MOST_WORDS = 40
"""Maximum number of words of a rule."""

_HUNDREDTHS = 100
_DIGITS = 9


def words_of_rules() -> str:
    """Return the text of the file with the words and their weights, a word on each line."""
    logs = list(labelled())
    having = Counter(word for _, own in logs for word in own)
    rarity = {word: ln((1 + len(logs)) / (1 + count)) + 1 for word, count in having.items() if count > 1}
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for phrase, own in logs:
        known = {word: rarity[word] for word in sorted(own) if word in rarity}  # sums of floats have an order
        length = sqrt(sum(weight**2 for weight in known.values()))
        for word, weight in known.items():
            sums[phrase][word] += weight / length
    learned: dict[str, dict[str, int]] = defaultdict(dict)
    for phrase, weights in sums.items():
        length = sqrt(sum(weight**2 for weight in weights.values()))
        heaviest = sorted(weights, key=lambda word: (-round(weights[word], _DIGITS), word))
        for word in heaviest[:MOST_WORDS]:
            learned[word][phrase] = round(_HUNDREDTHS * weights[word] / length * rarity[word])
    lines = (f"{json.dumps(word)}: {json.dumps(of, sort_keys=True)}" for word, of in sorted(learned.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def labelled() -> Iterator[tuple[str, set[str]]]:
    """Yield the cause and the words of each known log, and of what rules say that search logs."""
    for entry in shipped_entries():
        if any("userLogRegex" in pattern for pattern in entry["patterns"]):
            advice = "\n".join([entry["reason"], *entry["solution"]])
            yield from ((entry["phrase"], words(text.encode())) for text in [advice, *entry["samples"]])
    for file in sorted((TESTS / "corpus").rglob("*.yaml")):
        for each in _loaded(file):
            cause = each["cause"]
            yield cause if isinstance(cause, str) else cause[0], words(each["log"].encode())
    for phrase, logs in _loaded(TESTS / "wordings.yaml").items():
        yield from ((phrase, words(text.encode())) for text in logs)


def _loaded(file: Path) -> Any:
    return yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
