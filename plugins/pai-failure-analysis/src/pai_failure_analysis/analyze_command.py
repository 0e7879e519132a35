"""``pai-runtime analyze``: why whatever has written some logs has failed."""

import argparse
import json
import signal
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pai_failure_analysis.evidence import LOG_BYTES, Evidence
from pai_failure_analysis.matching import Found, Match, first_match, searchable
from pai_failure_analysis.rules import shipped_rules
from pai_runtime.document.problems import InvalidInput, Problem
from pai_runtime.task.analysis import MOST_CODE
from pai_runtime.terminal.output import report_problems
from pai_runtime.terminal.text import cut, shown_line

CONTEXT = 3
"""Lines that are shown before and after a match."""

MOST_LINES = 10
"""Lines of a match that are shown."""

COLUMNS = 160
BEFORE_MATCH = 60
"""Columns of a line that are shown, and of them, bytes before a match that would be beyond."""

BEHAVIORS = {
    "TRANSIENT": "it may go well the next time",
    "PERMANENT": "it fails again if nothing is changed",
    "UNKNOWN": "whether it goes well the next time is not known",
}

NOT_FOUND = 1
"""Exit status: no rule fits."""


@dataclass(frozen=True)
class Log:
    """The end of one log: where it begins in the text of all, and which of its lines that is, from 1."""

    name: str
    start: int
    first_line: int


@dataclass(frozen=True)
class Logs:
    """Several logs as one searchable text."""

    text: bytes
    logs: tuple[Log, ...]

    def place(self, index: int) -> tuple[str, int]:
        """The log and the line, from 1, of a byte in the text."""
        log = self.logs[bisect_right([log.start for log in self.logs], index) - 1]
        return log.name, log.first_line + self.text.count(b"\n", log.start, index)

    def lines(self, found: Found) -> list[tuple[int, bool, str]]:
        """The lines of a match and those around it: the number, whether it is one of the match, the text."""
        log = max((log for log in self.logs if log.start <= found.start), key=lambda log: log.start)
        end = min((log.start for log in self.logs if log.start > found.start), default=len(self.text))
        start = found.start
        for _ in range(CONTEXT + 1):
            start = self.text.rfind(b"\n", log.start, max(start, log.start))
        start = max(start + 1, log.start)
        number = log.first_line + self.text.count(b"\n", log.start, start)
        shown: list[tuple[int, bool, str]] = []
        after = 0
        while start < end and len(shown) < CONTEXT + MOST_LINES and after <= CONTEXT:
            stop = self.text.find(b"\n", start, end)
            stop = end if stop < 0 else stop
            matched = start <= max(found.start, found.end - 1) and stop >= found.start
            shown.append((number, matched, _shown(self.text, start, stop, found.start)))
            after += found.end <= stop
            start, number = stop + 1, number + 1
        return shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is given."""
    parser.add_argument("logs", nargs="+", metavar="LOG", help="a log, of any job; - is standard input")
    parser.add_argument(
        "--exit-code", type=_exit_code, metavar="N", help="what the job ended with (default: 1)"
    )
    parser.add_argument(
        "--signal", type=_signal, metavar="S", help="the signal that ended it: 9, KILL or SIGKILL"
    )
    parser.add_argument(
        "--spec", type=Path, metavar="FILE", help="an exit spec whose rules are tried before the shipped ones"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace) -> int:
    """Exit status 0 if the failure is explained, 1 if no rule fits, 2 if a log cannot be read."""
    logs = _read_logs(args.logs)
    rules = shipped_rules()
    if args.spec:
        from pai_failure_analysis.spec_file import read_spec_file  # noqa: PLC0415 - slow to import

        spec = read_spec_file(args.spec)
        report_problems(spec.problems)
        rules = [*spec.rules, *rules]
    code = args.exit_code if args.exit_code is not None else 128 + args.signal if args.signal else 1
    evidence = Evidence(code, args.signal, user_log=logs.text, platform_log=logs.text)
    match = first_match(rules, evidence)
    if args.json:
        sys.stdout.write(json.dumps(_document(match, logs) if match else None, indent=2) + "\n")
    elif match:
        sys.stdout.writelines(
            f"{shown_line(line.encode(errors='replace'))}\n" for line in _explained(match, logs)
        )
    else:
        sys.stdout.write(f"No rule fits exit code {code} and these logs.\n")
    return 0 if match else NOT_FOUND


def _exit_code(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST_CODE:
        raise argparse.ArgumentTypeError(f"'{text}' is no exit code; expected 0 to {MOST_CODE}")
    return int(text)


def _signal(text: str) -> int:
    try:
        if text.isdecimal():
            return signal.Signals(int(text)).value
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"].value
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"'{text}' is no signal; such are 9, KILL and SIGKILL") from None


def _read_logs(names: list[str]) -> Logs:
    text, logs = b"", []
    for name in names:
        try:
            if name == "-":
                end, lines = _end_of(sys.stdin.buffer)
            else:
                with Path(name).open("rb") as stream:
                    end, lines = _end_of(stream)
        except OSError as error:
            raise InvalidInput([Problem("unreadable", f"{name} cannot be read: {error.strerror}")]) from None
        if text and not text.endswith(b"\n"):
            text += b"\n"
        logs.append(Log("standard input" if name == "-" else name, len(text), lines + 1))
        text += searchable(end)
    return Logs(text, tuple(logs))


def _end_of(stream: IO[bytes]) -> tuple[bytes, int]:
    """The last bytes of a log, and how many lines are before them."""
    end, lines = b"", 0
    while piece := stream.read(LOG_BYTES):
        end += piece
        lines += end.count(b"\n", 0, max(0, len(end) - LOG_BYTES))
        end = end[-LOG_BYTES:]
    return end, lines


def _shown(text: bytes, start: int, stop: int, match: int) -> str:
    """A line, or what is around the match of one that is long."""
    begin = match - BEFORE_MATCH if start + COLUMNS < match < stop else start
    line = shown_line(text[begin : min(stop, begin + 4 * COLUMNS)])
    return ("…" if begin > start else "") + cut(line, COLUMNS)


def _places(match: Match) -> list[Found]:
    """What was found in the logs, each place once."""
    return list(dict.fromkeys(filter(None, (match.user, match.platform))))


def _explained(match: Match, logs: Logs) -> Iterator[str]:
    rule = match.rule
    yield f"{rule.code} {rule.phrase}: {BEHAVIORS[rule.behavior]}"
    yield ""
    yield f"Why: {rule.reason or 'the rule does not say'}"
    if rule.because_of_peer:
        yield "Another task failed first: look there."
    if rule.solution:
        yield "What to do:"
        yield from (f"  - {line}" for line in rule.solution)
    for found in _places(match):
        name, number = logs.place(found.start)
        yield ""
        yield f"{name}:{number}:"
        yield from (
            f"{'>' if matched else ' '} {line:>6} | {text}" for line, matched, text in logs.lines(found)
        )
    yield ""
    yield f"By {match.trigger}"


def _document(match: Match, logs: Logs) -> dict[str, Any]:
    rule = match.rule
    return {
        "code": rule.code,
        "phrase": rule.phrase,
        "behavior": rule.behavior,
        "reason": rule.reason,
        "solution": rule.solution,
        "becauseOfPeer": rule.because_of_peer,
        "trigger": match.trigger,
        "matches": [
            {
                "log": name,
                "line": number,
                "text": found.text,
                "context": [
                    {"line": line, "matched": matched, "text": text}
                    for line, matched, text in logs.lines(found)
                ],
            }
            for found in _places(match)
            for name, number in [logs.place(found.start)]
        ],
    }
