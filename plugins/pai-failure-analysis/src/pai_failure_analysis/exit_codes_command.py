"""``pai-runtime exit-codes``: what the exit codes mean that rules give."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from pai_failure_analysis.rules import Rule, shipped_rules
from pai_runtime.terminal.text import cut

NOT_FOUND = 1
"""Exit status: no rule gives this code."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is given."""
    parser.add_argument("code", nargs="?", type=int, metavar="CODE", help="one of them, in full")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace) -> int:
    """Exit status 0, or 1 if no rule gives this code."""
    rules = [rule for rule in shipped_rules() if args.code in (None, rule.code)]
    if args.json:
        sys.stdout.write(json.dumps([_document(rule) for rule in rules], indent=2) + "\n")
    elif not rules:
        sys.stdout.write(f"No rule gives exit code {args.code}: it is the command's own.\n")
    else:
        lines = _table(rules) if args.code is None else _in_full(rules)
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0 if rules else NOT_FOUND


def by_code(rules: Sequence[Rule]) -> list[Rule]:
    """The rules as tables have them: those of one code together, in the order in which they are tried."""
    return sorted(rules, key=lambda rule: rule.code)


def _table(rules: Sequence[Rule]) -> Iterator[str]:
    width = max(len(rule.phrase) for rule in rules)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for rule in by_code(rules):
        yield cut(f"{rule.code}  {rule.phrase:{width}}  {rule.behavior:9}  {rule.reason}", columns).rstrip()


def _in_full(rules: Sequence[Rule]) -> Iterator[str]:
    for number, rule in enumerate(rules):
        if number:
            yield ""
        yield f"{rule.code} {rule.phrase} ({rule.behavior})"
        yield f"  {rule.reason}"
        yield from (f"  - {line}" for line in rule.solution)


def _document(rule: Rule) -> dict[str, object]:
    whole = asdict(rule)
    return {name: whole[name] for name in ("code", "phrase", "behavior", "reason", "solution")}
