"""Print how often the shipped rules name the right cause of labelled logs, and the confusion matrix.

And how often the guess is right that is made where no rule matches; of logs that it was learned from, it is.

./dev python tools/causes.py plugins/pai-failure-analysis/tests/corpus/public_issues.yaml
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.likeness import likely_rule
from pai_failure_analysis.matching import GENERIC, Matcher
from pai_failure_analysis.rules import Rule, shipped_rules

NOTHING = "nothing"


def judge(corpus: Sequence[Mapping[str, Any]], rules: Sequence[Rule]) -> Iterator[tuple[str, str, bool]]:
    """Yield what is right for each log (of several answers, the first), what was found, and whether it is
    called PERMANENT although a retry may cure it.
    """
    matcher = Matcher(rules)
    for each in corpus:
        match = matcher.first_match(_evidence(each))
        found = match.rule.phrase if match else NOTHING
        discouraged = (
            match is not None and match.rule.behavior == "PERMANENT" and each.get("transient", False)
        )
        yield _answer(each, found), found, discouraged


def guesses(corpus: Sequence[Mapping[str, Any]], rules: Sequence[Rule]) -> Iterator[tuple[str, str]]:
    """Yield what is right for each log for which there is a guess, and the guess."""
    for each in corpus:
        if rule := likely_rule(_evidence(each).user_log, rules):
            yield _answer(each, rule.phrase), rule.phrase


def _evidence(each: Mapping[str, Any]) -> Evidence:
    log = each["log"].encode()
    return Evidence(each.get("exitCode", 1), each.get("signal"), user_log=log, platform_log=log)


def _answer(each: Mapping[str, Any], found: str) -> str:
    """Return what was found, if that is an answer, otherwise the first of the answers."""
    right = [each["cause"]] if isinstance(each["cause"], str) else each["cause"]
    return found if found in right else str(right[0])


def table(judged: Sequence[tuple[str, str, bool]]) -> Iterator[str]:
    """Yield the figures, and the matrix without its diagonal, as Markdown."""
    wrong = Counter((right, found) for right, found, _ in judged if right != found)
    kinds = Counter(kind(right, found) for right, found, _ in judged)
    yield "| logs | right | generic | wrong | nothing | a retry wrongly discouraged |"
    yield "|---|---|---|---|---|---|"
    yield (
        f"| {len(judged)} | {kinds['right']} ({kinds['right'] / len(judged):.0%}) | {kinds['generic']} "
        f"| {kinds['wrong']} | {kinds['nothing']} | {sum(discouraged for *_, discouraged in judged)} |"
    )
    yield ""
    yield "| the cause | what was found instead | logs |"
    yield "|---|---|---|"
    for (right, found), count in sorted(wrong.items()):
        yield f"| {right} | {found} | {count} |"


def kind(right: str, found: str) -> str:
    """Return whether a finding is right, generic, wrong or nothing."""
    if found in (right, NOTHING):
        return "right" if found == right else found
    return "generic" if found in GENERIC else "wrong"


def main() -> None:
    corpus = [each for name in sys.argv[1:] for each in yaml.safe_load(Path(name).read_bytes())]
    rules = shipped_rules()
    judged = list(judge(corpus, rules))
    print(*table(judged), sep="\n")
    unexplained = [each for each, (_, found, _) in zip(corpus, judged, strict=True) if found == NOTHING]
    guessed = [right == guess for right, guess in guesses(unexplained, rules)]
    print(f"\nguesses where no rule matches: {len(guessed)}, right: {sum(guessed)}")


if __name__ == "__main__":
    main()
