"""``pai-runtime exit-codes``: what the exit codes mean, and what to do."""

import argparse
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from pai_failure_analysis.rules import Rule, shipped_rules
from pai_runtime.plugin import Output

NOT_FOUND = 1
"""The exit status if no rule gives this code, or has this name."""

MOST_SUGGESTED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "failure",
        nargs="?",
        metavar="CODE|NAME",
        help="an exit code, or the name of a failure, such as 226 or CudaOutOfMemory (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0, or 1 if no rule gives this code or has this name."""
    every, wanted = shipped_rules(), args.failure
    rules = [
        rule for rule in every if wanted is None or wanted.lower() in (str(rule.code), rule.phrase.lower())
    ]
    if args.json:
        output.write_json([_document(rule) for rule in rules])
    elif wanted is None:
        output.write_lines(line[: output.columns] for line in _table(rules))
    elif rules:
        output.write_lines(_in_full(rules))
    elif wanted.isdecimal():
        output.write_lines([f"No rule gives exit code {wanted}: it is the command's own, or the runtime's."])
    else:
        output.write_lines([f"No rule is called '{wanted}'{_similar(wanted, every)}"])
    return 0 if rules else NOT_FOUND


def by_code(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules sorted by code; those of one code stay in the order in which they are tried."""
    return sorted(rules, key=lambda rule: rule.code)


def _similar(wanted: str, rules: Sequence[Rule]) -> str:
    names = {rule.phrase.lower(): rule.phrase for rule in rules}
    near = [name for name in names if wanted.lower() in name] or get_close_matches(wanted.lower(), names)
    return f"; did you mean {', '.join(names[name] for name in near[:MOST_SUGGESTED])}?" if near else "."


def _table(rules: Sequence[Rule]) -> Iterator[str]:
    width = max(len(rule.phrase) for rule in rules)
    for rule in by_code(rules):
        yield f"{rule.code}  {rule.phrase:{width}}  {rule.behavior:9}  {rule.reason}".rstrip()


def _in_full(rules: Sequence[Rule]) -> Iterator[str]:
    for number, rule in enumerate(rules):
        if number:
            yield ""
        yield f"{rule.code} {rule.phrase} ({rule.behavior})"
        yield f"  {rule.reason}"
        yield from (f"  - {line}" for line in rule.solution)


def _document(rule: Rule) -> dict[str, object]:
    return {name: getattr(rule, name) for name in ("code", "phrase", "behavior", "reason", "solution")}
