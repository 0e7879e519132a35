"""How often the cause is right, over logs that were labelled before the rules saw them."""

from pathlib import Path

import pytest
import yaml

from pai_failure_analysis.rules import shipped_rules
from tools.causes import judge, kind

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.yaml"))


@pytest.mark.parametrize("file", CORPUS, ids=[file.stem for file in CORPUS])
def test_the_cause_is_right_and_a_retry_is_not_wrongly_discouraged(file: Path) -> None:
    logs = yaml.safe_load(file.read_bytes())
    judged = list(judge(logs, shipped_rules()))
    wrong = [
        (log["from"], right, found)
        for log, (right, found, _) in zip(logs, judged, strict=True)
        if right != found
    ]
    assert len(wrong) <= 0.05 * len(judged), wrong
    assert sum(discouraged for *_, discouraged in judged) <= 0.01 * len(judged)
    assert {kind(right, right) for right, _, _ in judged} == {"right"}
    assert len({log["from"] for log in logs}) == len(logs)
