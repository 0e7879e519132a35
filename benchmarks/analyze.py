"""analyze: why a job failed, from 10 MB of its log, by the shipped rules; no rule fits.

The whole process, beside one that does nothing, and beside one that searches for a twentieth of the patterns
with Python's `re`, one by one. Then with one pattern of a job more, and a log of one line, which are made to
take for ever.
"""

import contextlib
import json
import random
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import BARE_PYTHON, PROGRAM, Thing, in_turn, milliseconds, process, table, times
from pai_failure_analysis.rules import shipped_rules

BYTES = 10 * 1024 * 1024
RUNS = 7
RUNS_ONE_BY_ONE = 1
LINE = (
    "2026-01-01 00:00:00,{0:03} INFO train.py:123 epoch {1} step {0} of 20000: loss 0.{2:05},"
    " accuracy 0.98765, lr 1.0e-03, 1234.5 samples/s, eta 1:23:45\n"
)
LIMIT = 0.300
PART = 20
"""Python's `re` takes minutes for all patterns, so it is given one of so many, and must still be slower."""
LONGER = 2
ENDLESS = "(a+)+$"

ANALYZE, EVIL, RE = "analyze", f"analyze, with {ENDLESS} and a line of a", f"one of {PART}, one by one, by re"
WORDS = "analyze, words of the patterns"
MOST_FOR_WORDS = 5.0
"""Seconds; one automaton for all patterns took 100."""

ONE_BY_ONE = r"""
import json, re, sys
patterns, log = json.load(open(sys.argv[1])), open(sys.argv[2], "rb").read()
for pattern in patterns:
    assert not re.search(pattern.encode(), log)
"""
"""What somebody would write who does not have RE2."""


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, line, spec = folder / "train.log", folder / "line.log", folder / "spec.yaml"
        words = folder / "words.log"
        words.write_text(_words())
        log.write_text(_training_log())
        line.write_bytes(b"a" * (BYTES - 2) + b"b\n")
        spec.write_text(json.dumps([{"code": 9, "patterns": [{"userLogRegex": ENDLESS}]}]))
        patterns, left_out = _for_re()
        (folder / "patterns.json").write_text(json.dumps(patterns[::PART]))
        measured = in_turn(
            RUNS,
            {
                ANALYZE: _finds_nothing([PROGRAM, "analyze", str(log)]),
                EVIL: _finds_nothing([PROGRAM, "analyze", "--spec", str(spec), str(line)]),
                WORDS: process(["sh", "-c", '"$@" || [ $? = 1 ]', "sh", PROGRAM, "analyze", str(words)]),
                "python -I -c pass": process(BARE_PYTHON),
            },
        )
        one_by_one = process(
            [sys.executable, "-I", "-c", ONE_BY_ONE, str(folder / "patterns.json"), str(log)]
        )
        measured |= in_turn(RUNS_ONE_BY_ONE, {RE: one_by_one})
    reference = measured[ANALYZE]
    table(
        (f"{BYTES // 2**20} MB, {len(patterns)} patterns", "time", "CPU", "analyze"),
        [
            (name, milliseconds(each.median), milliseconds(each.cpu), times(each.cpu / reference.cpu))
            for name, each in measured.items()
        ],
    )
    print(f"  Python's re cannot read {left_out} patterns")
    took = {name: timing.cpu for name, timing in measured.items()}
    checks = {
        f"analyze takes less than {milliseconds(LIMIT)}": took[ANALYZE] < LIMIT,
        f"analyze is {PART} times faster than one by one": took[RE] >= took[ANALYZE],
        f"{ENDLESS} on a line of 10 MB takes at most {LONGER} times as long": took[EVIL]
        <= LONGER * took[ANALYZE],
        f"words of the patterns take less than {milliseconds(MOST_FOR_WORDS)}": took[WORDS] < MOST_FOR_WORDS,
    }
    return [target for target, met in checks.items() if not met]


def _training_log() -> str:
    lines = "".join(LINE.format(step % 1000, step // 1000, step * 7919 % 100_000) for step in range(90_000))
    return lines[:BYTES]


def _words() -> str:
    patterns = [str(pattern.user_log) for rule in shipped_rules() for pattern in rule.patterns]
    words = sorted({word for text in patterns for word in re.findall(r"[A-Za-z]{3,}:?", text)})
    chosen = random.Random(1).choices(words, k=BYTES // 8)  # noqa: S311 - no secret
    lines = (" ".join(chosen[at : at + 12]) for at in range(0, len(chosen), 12))
    return "\n".join(lines)[:BYTES]


def _finds_nothing(argv: list[str]) -> Thing:
    """A process that has to find nothing."""
    return process(["sh", "-c", '"$@"; [ $? = 1 ]', "sh", *argv])


def _for_re() -> tuple[list[str], int]:
    r"""What the shipped rules search logs for, as far as Python's re can take it, and how much it cannot.

    The end of a text is \z in RE2 and \Z in re; the rest of what is in use is the same in both, or left out.
    """
    patterns = [pattern for rule in shipped_rules() for pattern in rule.patterns]
    wanted = {text for pattern in patterns for text in (pattern.user_log, pattern.platform_log) if text}
    taken = []
    for text in sorted(wanted):
        translated = text.replace(r"\z", r"\Z")
        with contextlib.suppress(re.error):
            re.compile(translated.encode())
            taken.append(translated)
    return taken, len(wanted) - len(taken)
