"""Which exit codes a plan names as those after which a retry is in vain."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_failure_analysis import CLUSTER_SPEC, pai_prerequisite
from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.matching import Matcher
from pai_failure_analysis.permanent_codes import SHIPPED, SHIPPED_OTHERS
from pai_failure_analysis.rules import shipped_rules
from pai_failure_analysis.spec_file import read_spec_file
from pai_runtime.host.planning import contribution_from_json, contribution_to_json
from pai_runtime.plugin import Contribution, Task, Use
from tests.job_harness import planned
from tests.support import ROOT, job, write_job

ID = "com.microsoft.pai.runtimeplugin.failure_analysis"
TASK = Task("job", "worker", 0, {"worker": 1}, {}, Path("/task"))


def rule(code: int, behavior: str | None, **more: Any) -> dict[str, Any]:
    return {"containerExitCode": code, "behavior": behavior, "patterns": [{"exitCode": 1}], **more}


def codes(**parameters: Any) -> set[int]:
    use = Use(ID, "failure_analysis", parameters, "ignore", "job.yaml:1:1", ("worker",))
    contribution = pai_prerequisite(use, TASK)
    return set(contribution.permanent_codes) if contribution else set()


@pytest.fixture(autouse=True)
def no_spec_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CLUSTER_SPEC, raising=False)


def test_the_tables_are_what_the_shipped_rules_say() -> None:
    others = {rule.code for rule in shipped_rules() if rule.behavior != "PERMANENT"}
    assert others == SHIPPED_OTHERS
    assert {rule.code for rule in shipped_rules()} - others == set(SHIPPED)
    assert len(SHIPPED) == len(set(SHIPPED))


def test_without_rules_of_others_they_are_the_shipped_ones() -> None:
    assert codes() == set(SHIPPED)


def test_an_analysis_that_is_switched_off_knows_none() -> None:
    assert codes(enabled=False) == set()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("own", "more", "less"),
    [
        ([rule(10, "PERMANENT")], {10}, set()),
        ([rule(10, "TRANSIENT")], set(), set()),
        ([rule(10, "PERMANENT"), rule(10, "UNKNOWN")], set(), set()),
        ([rule(10, "PERMANENT"), rule(10, None)], set(), set()),
        ([rule(226, "TRANSIENT")], set(), {226}),
        ([rule(226, None)], set(), {226}),
        ([rule(248, "PERMANENT")], set(), set()),  # a shipped rule gives it to what may pass
    ],
)
def test_every_rule_that_gives_a_code_must_call_it_permanent(
    when: str, own: list[Any], more: set[int], less: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {*SHIPPED, *more} - less
    assert codes(**{when: own}) == expected
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(own))
    monkeypatch.setenv(CLUSTER_SPEC, str(spec))
    assert codes() == expected


def test_a_contribution_of_them_comes_back_in_order() -> None:
    sent = contribution_to_json(Contribution(permanent_codes={9, 3}))
    assert contribution_from_json(sent).permanent_codes == [3, 9]


@pytest.mark.parametrize("wrong", [[0], [256], [True], ["1"], [1.0], "12", 5, {1: 2}])
def test_what_is_no_exit_code_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^Contribution\.permanent_codes: "):
        Contribution(permanent_codes=wrong)


@pytest.mark.process
def test_a_plan_names_them_and_one_without_any_says_nothing_of_them(tmp_path: Path) -> None:
    extras = [{"plugin": "failure_analysis", "parameters": {"enabled": False}}]
    used, off = (
        planned(write_job(tmp_path, document))["worker", 0]
        for document in (job(), job(extras={"com.microsoft.pai.runtimeplugin": extras}))
    )
    assert used.to_json()["permanentCodes"] == list(SHIPPED)
    assert off.permanent_codes == ()
    assert "permanentCodes" not in off.to_json()


OPENPAI = {128, 130, 131, 132, *range(134, 138), 139, 141, 143, *range(220, 236), 249}
"""The codes of rules in the exit spec that OpenPAI 1.8 ships."""
OPENPAI_LACKS = yaml.safe_load((ROOT / "deploy" / "openpai" / "k8s-job-exit-spec.yaml").read_text())


def test_operators_of_openpai_are_given_an_entry_for_each_exit_code_that_it_does_not_have() -> None:
    by_code = {entry["code"]: entry for entry in OPENPAI_LACKS}
    assert len({entry["phrase"] for entry in OPENPAI_LACKS}) == len(by_code) == len(OPENPAI_LACKS)
    assert by_code.keys() == {rule.code for rule in shipped_rules()} - OPENPAI
    retried = {"PERMANENT": "NEVER_RETRY", "UNKNOWN": "RETRY_TO_MAX"}
    for code, entry in by_code.items():
        assert entry["behavior"] == ("PERMANENT" if code in SHIPPED else "UNKNOWN")
        assert entry["reaction"] == retried[entry["behavior"]]


def test_the_entries_for_operators_of_openpai_match_nothing(tmp_path: Path) -> None:
    spec = tmp_path / "k8s-job-exit-spec.yaml"
    spec.write_text(yaml.safe_dump({"spec": OPENPAI_LACKS}))
    file = read_spec_file(spec)
    assert (len(file.rules), list(file.faults)) == (len(OPENPAI_LACKS), [])
    matcher = Matcher(file.rules)
    assert not [code for code in range(256) if matcher.first_match(Evidence(code))]
