"""How often the cause is right of what programs really printed, which `tools/record_failures.py` recorded."""

from pathlib import Path

import yaml

from pai_failure_analysis.rules import shipped_rules
from tools.causes import judge

RECORDED = Path(__file__).parent / "recorded"
LOGS = yaml.load((RECORDED / "logs.yaml").read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
WRONG = 0.02
"""Share of logs."""


def test_the_cause_is_right_and_a_retry_is_not_wrongly_discouraged() -> None:
    judged = list(judge(LOGS, shipped_rules()))
    wrong = [
        (log["name"], log["in"], right, found)
        for log, (right, found, _) in zip(LOGS, judged, strict=True)
        if right != found
    ]
    assert len(judged) >= 200
    assert len(wrong) <= WRONG * len(judged), wrong
    assert sum(discouraged for *_, discouraged in judged) <= 0.01 * len(judged)


def test_each_log_says_what_made_it_and_its_way_is_written_down() -> None:
    ways = {way["name"]: way for way in yaml.safe_load((RECORDED / "ways.yaml").read_bytes())}
    for log in LOGS:
        assert all(log["versions"].values()), log["name"]
        assert log["in"] in ways[log["name"]].get("in", ["new"])
        assert log["cause"] == ways[log["name"]]["cause"]
