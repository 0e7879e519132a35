"""Of a failure that spreads over tasks, the task and the line that began it are named.

Generated from what programs and libraries really print (``tests/failures`` of pai-failure-analysis): one task
has a cause of its own, all others what follows from it, and the clocks of the tasks are up to 5 s apart.
"""

import random
import re
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any

import yaml

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.matching import GENERIC, Match, Matcher
from pai_failure_analysis.rules import shipped_rules
from pai_runtime.runs.completion import first_failure
from tests.support import ROOT

CASCADES = 300
MOST_TASKS = 128
WRONG = 0.01
"""Share of cascades: of exceptions that no rule knows, after which other ranks printed more than errors."""

CLOCKS = 5.0

TOLD_TO_END = 143
PASSED_ON = {"SubprocessFailed", "WorkerProcessLost"}
SHELL = re.compile(r"(?m)^\S+: (?:line )?\d+: |^(?:command|bash|sh|cat|dd|/usr/bin/env)(?:: |\[)")

FAILURES = ROOT / "plugins/pai-failure-analysis/tests/failures"
OTHERS = {130, 137, 143, 237, 239}
"""Codes of failures that may be another task's; that of a kill, of which a log says nothing."""

MATCHER = Matcher(shipped_rules())


@cache
def _match(log: str, code: int) -> Match | None:
    return MATCHER.first_match(Evidence(code, user_log=log.encode()))


@cache
def _causes() -> list[tuple[str, int]]:
    """Logs with a cause of their own, and the exit codes of their commands."""
    return [
        (each["userLog"], each.get("exitCode", 1))
        for name in ("gpu", "memory", "programs", "setup")
        for each in yaml.safe_load((FAILURES / f"{name}.yaml").read_bytes())
        if "userLog" in each
        and (match := _match(each["userLog"], each.get("exitCode", 1)))
        and match.rule.code not in OTHERS
        and match.user
        and match.user.text.strip()
    ]


@cache
def _consequences() -> list[tuple[str, int]]:
    """Logs of tasks whose peer has gone, and the exit codes of their commands."""
    logs = [
        (each["userLog"], each.get("exitCode", 1))
        for name in ("distributed", "network")
        for each in yaml.safe_load((FAILURES / f"{name}.yaml").read_bytes())
        if "userLog" in each
        and each["phrase"].startswith(
            ("PeerGone", "NcclTimeout", "GlooTimeout", "StoreLost", "ConnectionLost")
        )
    ]
    return [
        *logs,
        ("Terminated\n", TOLD_TO_END),
        ("ConnectionResetError: [Errno 104] Connection reset by peer\n", 1),
        ("BrokenPipeError: [Errno 32] Broken pipe\n", 1),
    ]


def _record(log: str, code: int, at: datetime) -> dict[str, Any]:
    """What the exit record of a task of several says."""
    record: dict[str, Any] = {
        "outcome": "failed",
        "exitCode": code,
        "decidedAt": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
    }
    if match := _match(log, code):
        record |= {"exitCode": match.rule.code, "phrase": match.rule.phrase}
        record["becauseOfPeer"] = match.rule.because_of_peer
    return record


def test_the_task_that_began_it_is_named() -> None:
    wrong = []
    for seed in range(CASCADES):
        chance = random.Random(seed)  # noqa: S311 - reproducible, nothing secret
        tasks, (cause, code) = chance.randint(2, MOST_TASKS), chance.choice(_causes())
        first, fell = chance.randrange(tasks), datetime(2026, 3, 1, tzinfo=timezone.utc)
        records = {}
        for index in range(tasks):
            log, own = (cause, code) if index == first else chance.choice(_consequences())
            after = 0.0 if index == first else chance.uniform(0.0, 60.0)
            clock = chance.uniform(-CLOCKS / 2, CLOCKS / 2)
            records["worker", index] = _record(log, own, fell + timedelta(seconds=after + clock))
        found = first_failure(records, ("worker", 0), CLOCKS)
        if found != ("worker", first):
            wrong.append((seed, records["worker", first], records[found]))
    assert wrong == []


def test_the_line_that_began_it_is_named_in_a_log_of_all_ranks() -> None:
    # Ranks are not there yet when a shell complains; who is told to end does not say why; some exceptions
    # only pass on that another process failed; and a rank that fails prints all of its traceback.
    of_programs = [
        (log, code)
        for log, code in _causes()
        if code != TOLD_TO_END and not SHELL.search(log) and (match := _match(log, code))
        if match.rule.phrase not in PASSED_ON
        if "Traceback (most" in log or match.rule.phrase not in GENERIC
    ]
    wrong = []
    for seed in range(CASCADES):
        chance = random.Random(seed)  # noqa: S311 - reproducible, nothing secret
        ranks, (cause, code) = chance.randint(2, MOST_TASKS), chance.choice(of_programs)
        first = chance.randrange(ranks)
        lines = [f"[rank{rank}]: step {step} loss 0.{step}" for step in range(9) for rank in range(ranks)]
        lines += [f"[rank{first}]: {line}" for line in cause.split("\n")]
        for rank in chance.sample(range(ranks), ranks):
            log, _ = chance.choice(_consequences())
            lines += [] if rank == first else [f"[rank{rank}]: {line}" for line in log.split("\n")]
        merged = "\n".join(lines)
        match = MATCHER.first_match(Evidence(code, user_log=merged.encode()))
        start = match.user.start if match and match.user else 0
        line = merged.encode()[:start].count(b"\n")
        if not lines[line].startswith(f"[rank{first}]: ") or line < 9 * ranks:
            wrong.append((seed, match and match.rule.phrase, lines[line][:100], cause[-100:]))
    assert len(wrong) <= WRONG * CASCADES, wrong
