"""``pai-runtime analyze``: why a job failed, from its logs."""

import argparse
import signal
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pai_failure_analysis.evidence import LOG_BYTES, Evidence
from pai_failure_analysis.matching import Found, Match, first_match, searchable
from pai_failure_analysis.rules import MOST_CODE, shipped_rules
from pai_runtime.plugin import Output, UserError

CONTEXT = 3
"""Lines that are shown before and after a match."""

MOST_LINES = 10
"""Lines of a match that are shown."""

MOST_NAMED = 5
"""Entries of a spec that a message names."""

COLUMNS = 160
BEFORE_MATCH = 60
"""Columns of a line that are shown; of a match beyond them, how many bytes are shown before it."""

BEHAVIORS = {
    "TRANSIENT": "a retry may help",
    "PERMANENT": "a retry fails again unless something is changed",
    "UNKNOWN": "a retry may or may not help",
}

NOT_FOUND = 1
"""Exit status: no rule matches."""

if TYPE_CHECKING:
    from pai_failure_analysis.spec_file import SpecFile


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

    def position(self, index: int) -> tuple[str, int]:
        """The log and the line, from 1, of a byte in the text."""
        log = self.logs[bisect_right([log.start for log in self.logs], index) - 1]
        return log.name, log.first_line + self.text.count(b"\n", log.start, index)

    def lines(self, found: Found, output: Output) -> list[tuple[int, bool, str]]:
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
            begin = found.start - BEFORE_MATCH if start + COLUMNS < found.start < stop else start
            line = output.log_line(self.text[begin : min(stop, begin + 4 * COLUMNS)], COLUMNS)
            shown.append((number, matched, f"…{line}" if begin > start else line))
            after += found.end <= stop
            start, number = stop + 1, number + 1
        return shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is given."""
    parser.add_argument("logs", nargs="+", metavar="LOG", help="a log of any job; - is standard input")
    parser.add_argument(
        "--exit-code", type=_exit_code, metavar="N", help="the exit code of the job (default: 1)"
    )
    parser.add_argument(
        "--signal", type=_signal, metavar="S", help="the signal that ended it: 9, KILL or SIGKILL"
    )
    parser.add_argument(
        "--spec", type=Path, metavar="FILE", help="an exit spec whose rules are tried before the shipped ones"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace, output: Output) -> int:
    """Exit status 0 if the failure is explained, 1 if no rule matches, 2 if a log cannot be read."""
    logs = _read_logs(args.logs)
    rules = shipped_rules()
    if args.spec:
        from pai_failure_analysis.spec_file import read_spec_file  # noqa: PLC0415 - slow to import

        spec = read_spec_file(args.spec)
        output.report(*(f"warning: {fault}" for fault in spec.faults), *_left_out(args.spec, spec))
        rules = [*spec.rules, *rules]
    code = args.exit_code if args.exit_code is not None else 128 + args.signal if args.signal else 1
    evidence = Evidence(code, args.signal, user_log=logs.text, platform_log=logs.text)
    match = first_match(rules, evidence)
    if args.json:
        output.write_json(_document(match, logs, output) if match else None)
    elif match:
        output.write_lines(_explained(match, logs, output))
    else:
        output.write_lines([f"No rule matches exit code {code} and these logs."])
    return 0 if match else NOT_FOUND


def _left_out(path: Path, spec: "SpecFile") -> Iterator[str]:
    if spec.for_controller:
        number, phrases = len(spec.for_controller), ", ".join(spec.for_controller[:MOST_NAMED])
        more = ", …" if number > MOST_NAMED else ""
        yield f"note: {path}: {number} entries are only for the platform's controller: {phrases}{more}"


def _exit_code(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST_CODE:
        raise argparse.ArgumentTypeError(f"expected an exit code from 0 to {MOST_CODE}, found '{text}'")
    return int(text)


def _signal(text: str) -> int:
    try:
        if text.isdecimal():
            return signal.Signals(int(text)).value
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"].value
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(
            f"expected a signal, such as 9, KILL or SIGKILL, found '{text}'"
        ) from None


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
            raise UserError(f"{name} cannot be read: {error.strerror}") from None
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


def _found_in(match: Match) -> list[Found]:
    """What was found in the logs, each position once."""
    return list(dict.fromkeys(filter(None, (match.user, match.platform))))


def _explained(match: Match, logs: Logs, output: Output) -> Iterator[str]:
    rule = match.rule
    yield f"{rule.code} {rule.phrase}: {BEHAVIORS[rule.behavior]}"
    yield ""
    yield f"Why: {rule.reason or 'the rule does not say'}"
    if rule.because_of_peer:
        yield "Another task failed first: look there."
    if rule.solution:
        yield "What to do:"
        yield from (f"  - {line}" for line in rule.solution)
    for found in _found_in(match):
        name, number = logs.position(found.start)
        yield ""
        yield f"{name}:{number}:"
        yield from (
            f"{'>' if matched else ' '} {line:>6} | {text}"
            for line, matched, text in logs.lines(found, output)
        )
    yield ""
    yield f"Found by {match.trigger}"


def _document(match: Match, logs: Logs, output: Output) -> dict[str, Any]:
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
                    for line, matched, text in logs.lines(found, output)
                ],
            }
            for found in _found_in(match)
            for name, number in [logs.position(found.start)]
        ],
    }
