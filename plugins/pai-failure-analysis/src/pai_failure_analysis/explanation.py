"""The explanation of a failure, as ``pai-runtime analyze`` prints it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pai_failure_analysis.likeness import likely_rule
from pai_failure_analysis.matching import Found, Match
from pai_failure_analysis.rules import Rule
from pai_failure_analysis.searched_logs import GUESS, Logs
from pai_runtime.plugin import Behavior, Output

BEHAVIORS = {
    "TRANSIENT": "a retry may help",
    "PERMANENT": "a retry fails again unless something is changed",
    "UNKNOWN": "a retry may or may not help",
}


@dataclass(frozen=True)
class Explanation:
    """An explanation: the rule, what triggered it, and what it matched in which logs."""

    rule: Rule
    trigger: str
    places: Sequence[tuple[Found, Logs]] = ()

    def lines(self, output: Output) -> Iterator[str]:
        """Yield the explanation as lines for people."""
        rule = self.rule
        yield f"{rule.code} {rule.phrase}: {BEHAVIORS[rule.behavior]}"
        yield ""
        yield f"Why: {rule.reason or 'the rule does not say'}"
        if rule.because_of_peer:
            yield "Another task failed first: look there."
        if rule.solution:
            yield "What to do:"
            yield from (f"  - {line}" for line in rule.solution)
        for found, logs in self.places:
            name, number = logs.position(found.start)
            yield ""
            yield f"{name}:{number}:"
            yield from (
                f"{'>' if matched else ' '} {line:>6} | {text}"
                for line, matched, text in logs.lines(found, output)
            )
        yield ""
        yield f"Found by {self.trigger}"

    def document(self, output: Output) -> dict[str, Any]:
        """Return the explanation as a JSON object for programs."""
        rule = self.rule
        return {
            "code": rule.code,
            "phrase": rule.phrase,
            "behavior": rule.behavior,
            "reason": rule.reason,
            "solution": rule.solution,
            "becauseOfPeer": rule.because_of_peer,
            "trigger": self.trigger,
            "matches": [
                {
                    "log": name,
                    "line": number,
                    "text": found.text,
                    "context": [
                        {"line": line, "matched": matched, "text": text}
                        for line, matched, text in logs.lines(found, output)
                    ],
                }
                for found, logs in self.places
                for name, number in [logs.position(found.start)]
            ],
        }


def unexplained(logs: Logs, rules: Iterable[Rule], output: Output) -> Iterator[str]:
    """Yield the end of logs that no rule explains, with a guess at the line that says why and at the rule."""
    end = list(logs.end(output))
    yield from ("", f"{logs.logs[-1].name} ends:", *end)
    if any(line.startswith(GUESS) for line in end):
        yield f"{GUESS}: a guess at the line that says why, and no known cause"
    if rule := likely_rule(logs.text, rules):
        yield from ("", f"Perhaps {rule.phrase}, by the words of the last lines: {rule.reason}")
        yield from (f"  - {line}" for line in rule.solution)


def by_match(match: Match, user: Logs, platform: Logs) -> Explanation:
    """Return the explanation by a match in two logs; a position found twice in one log is shown once."""
    places = [(match.user, user)] if match.user else []
    if match.platform and not (platform is user and match.platform == match.user):
        places.append((match.platform, platform))
    return Explanation(match.rule, match.trigger, places)


def by_record(record: Mapping[str, Any]) -> Explanation | None:
    """Return the explanation in an untrusted exit record; None if it has none."""
    phrase, code = record.get("phrase"), record.get("exitCode")
    behavior: Any = record.get("behavior")
    if not isinstance(phrase, str) or not isinstance(code, int):
        return None
    solution = record.get("solution")
    rule = Rule(
        code=code,
        phrase=phrase,
        patterns=(),
        source="",
        number=0,
        behavior=behavior if behavior in get_args(Behavior) else "UNKNOWN",
        reason=str(record.get("reason") or ""),
        solution=tuple(map(str, solution)) if isinstance(solution, list) else (),
        because_of_peer=record.get("becauseOfPeer") is True,
    )
    return Explanation(rule, f"{record.get('trigger')}, when it failed")
