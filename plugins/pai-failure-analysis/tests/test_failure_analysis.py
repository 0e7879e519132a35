"""The plugin failure_analysis in jobs: whose rules are tried in which order, and what is wrong with them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_failure_analysis import CLUSTER_SPEC, pai_analyze, pai_prerequisite
from pai_failure_analysis.rules import read_rules
from pai_plugin_kit import conformance
from pai_runtime.plugin import ContributedRule, Failure, Task, Use
from tests.plugin_factory import Site, uses
from tests.support import cli, job, write_job

ID = "com.microsoft.pai.runtimeplugin.failure_analysis"
test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance(ID))


def rule(phrase: str, code: int = 10, regex: str = "boom", **fields: Any) -> dict[str, Any]:
    return {"containerExitCode": code, "phrase": phrase, "patterns": [{"userLogRegex": regex}], **fields}


def use(**parameters: Any) -> Use:
    return Use(ID, "failure_analysis", parameters, "ignore", "job.yaml:1:1", ("worker",))


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.delenv(CLUSTER_SPEC, raising=False)
    (tmp_path / "logs" / "user-all").mkdir(parents=True)
    (tmp_path / "logs" / "user-all" / "current").write_text(
        "epoch 1\nboom\nModuleNotFoundError: No module named 'q'\n"
    )
    return Task("job", "worker", 0, {"worker": 1}, {}, tmp_path)


CLUSTERS, OTHERS = ContributedRule(ID, rule("Clusters")), ContributedRule("org.other", rule("Others"))


def analysed(task: Task, *contributed: ContributedRule, **parameters: Any) -> str | None:
    failure = Failure("failed", 1, "command", 1, rules=contributed)
    analysis = pai_analyze(use(**parameters), task, failure)
    return analysis.phrase if analysis else None


def test_the_order_is_the_jobs_first_rules_the_clusters_other_plugins_the_shipped_and_the_jobs_last(
    task: Task,
) -> None:
    before, after = [rule("Before")], [rule("After")]
    assert analysed(task, OTHERS, CLUSTERS, before=before, after=after) == "Before"
    assert analysed(task, OTHERS, CLUSTERS, after=after) == "Clusters"
    assert analysed(task, OTHERS, after=after) == "Others"
    shipped = analysed(task, after=after)
    assert shipped not in (None, "After")
    (task.folder / "logs" / "user-all" / "current").write_text("boom")
    assert analysed(task, after=after) == "After"
    assert analysed(task) is None


def test_an_analysis_has_all_that_the_rule_says_and_what_was_found(task: Task) -> None:
    own = rule(
        "Boom",
        77,
        "bo+m",
        reason="It went off.",
        solution=["Duck.", "Run."],
        behavior="TRANSIENT",
        becauseOfPeer=True,
    )
    analysis = pai_analyze(
        use(before=[own]), replace(task, instances={"worker": 1, "ps": 1}), Failure("failed", 1, "command", 1)
    )
    assert analysis is not None
    assert analysis.to_json() == {
        "code": 77,
        "phrase": "Boom",
        "reason": "It went off.",
        "solution": ("Duck.", "Run."),
        "behavior": "TRANSIENT",
        "trigger": "rule Boom (entry 1 of before of the job): userLogRegex bo+m",
        "because_of_peer": True,
        "user_match": "boom",
        "platform_match": "",
        "gpu": {},
    }


def test_an_answer_by_a_large_expression_is_small(task: Task) -> None:
    own = rule("Boom", regex="boom|" + "x" * 100_000)
    analysis = pai_analyze(use(before=[own]), task, Failure("failed", 1, "command", 1))
    assert analysis is not None
    assert len(json.dumps(analysis.to_json())) < 10_000


def test_the_only_task_of_a_job_did_not_fall_because_of_another(task: Task) -> None:
    own = rule("Boom", becauseOfPeer=True)
    analysis = pai_analyze(use(before=[own]), task, Failure("failed", 1, "command", 1))
    assert analysis is not None
    assert (analysis.phrase, analysis.because_of_peer) == ("Boom", False)


def test_what_was_found_of_gpus_is_told_if_the_rule_asks_for_it(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"nvidiaDoubleEccError": True, "nvidiaXid": [48]}
    monkeypatch.setattr("pai_failure_analysis.gathering.find_gpu_faults", lambda _: found)
    own = {"containerExitCode": 128, "phrase": "Ecc", "patterns": [{"gpuInfo": {"nvidiaXid": [48]}}]}
    analysis = pai_analyze(use(before=[own]), task, Failure("failed", 1, "command", 1))
    assert analysis is not None
    assert (analysis.phrase, analysis.gpu) == ("Ecc", found)


def test_switched_off_it_adds_nothing_and_finds_nothing(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLUSTER_SPEC, "no-such-file")
    assert pai_prerequisite(use(enabled=False), task) is None
    assert analysed(task, CLUSTERS, enabled=False) is None


def test_what_is_wrong_with_rules_of_other_plugins_is_told_where_they_are_tried(
    task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = ContributedRule("org.other", {"containerExitCode": 5, "patterns": [{"userLogRegex": "("}]})
    assert analysed(task, bad, OTHERS) == "Others"
    assert capsys.readouterr().err.startswith("[WARNING] failure_analysis: org.other: entry 1 (ExitCode5): ")


def test_the_clusters_spec_is_read_when_the_plan_is_made_and_its_faults_are_warnings(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "runtime-exit-spec.yaml"
    monkeypatch.setenv(CLUSTER_SPEC, str(spec))
    contribution = pai_prerequisite(use(), task)
    assert contribution is not None
    assert contribution.warnings == [f"{spec}: cannot be read: No such file or directory"]
    spec.write_text(yaml.safe_dump([rule("Clusters"), 5, rule("Bad", regex="(")]))
    contribution = pai_prerequisite(use(), task)
    assert contribution is not None
    assert contribution.exit_rules == [rule("Clusters"), rule("Bad", regex="(")]
    assert [warning.split(": ")[1] for warning in contribution.warnings] == ["entry 2", "entry 3 (Bad)"]
    spec.write_text(yaml.safe_dump([rule("Bad", regex="(")] * 3000))
    contribution = pai_prerequisite(use(), task)
    assert contribution is not None
    assert len(contribution.warnings) == 21
    assert contribution.warnings[-1] == f"{spec}: 2980 more invalid entries or patterns"
    monkeypatch.setenv(CLUSTER_SPEC, "")
    contribution = pai_prerequisite(use(), task)
    assert contribution is not None
    assert not contribution.exit_rules


@pytest.mark.parametrize("active", [None, "VIRTUAL_ENV", "CONDA_PREFIX"])
def test_a_missing_module_without_an_activated_environment_names_the_python_of_the_task(
    active: str | None, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    (tmp_path / "python3").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if active:
        monkeypatch.setenv(active, "/somewhere")

    def first_advice() -> str:
        analysis = pai_analyze(use(), task, Failure("failed", 1, "command", 1))
        assert analysis is not None
        assert analysis.phrase == "ModuleNotFound"
        return analysis.solution[0]

    assert (str(tmp_path / "python3") in first_advice()) == (active is None)
    monkeypatch.setenv("PATH", "")
    assert "activated" not in first_advice()


def test_of_the_operators_spec_the_entries_for_a_runtime_are_the_clusters_rules(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Path(__file__).parent / "exit_specs" / "k8s-job-exit-spec.yaml"
    monkeypatch.setenv(CLUSTER_SPEC, str(spec))
    contribution = pai_prerequisite(use(), task)
    assert contribution is not None
    assert len(contribution.warnings) == 5
    rules, _ = read_rules(contribution.exit_rules, "")
    assert [(rule.code, rule.behavior, len(rule.patterns)) for rule in rules] == [
        (137, "TRANSIENT", 1),
        (220, "PERMANENT", 1),
        (251, "TRANSIENT", 1),
    ]


CODE: dict[str, Any] = {"containerExitCode": 5, "patterns": [{}]}


def extras(**parameters: Any) -> dict[str, Any]:
    return {"com.microsoft.pai.runtimeplugin": [{"plugin": "failure_analysis", "parameters": parameters}]}


@pytest.mark.process
@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        (
            {"before": [rule("A", regex="a(b")]},
            "before of the job: entry 1 (A): patterns[0].userLogRegex: invalid RE2 expression 'a(b'",
        ),
        (
            {"before": [rule("A", regex="(<% $secrets.word %>")]},
            "patterns[0].userLogRegex: invalid RE2 expression '(<% $secrets.word %>'",
        ),
        (
            {"after": [rule("A", regex=r"(?<=x)")]},
            "after of the job: entry 1 (A): patterns[0].userLogReg",
        ),
        (
            {"before": [CODE | {"patterns": [{"userLogRegexp": "x"}]}]},
            "did you mean userLogRegex?",
        ),
        ({"before": [{"code": 5, "patterns": [{}]}]}, "missing field 'containerExitCode'"),
        (
            {"before": [CODE | {"containerExitCode": 500}]},
            "a whole number, at least 1, at most 255",
        ),
        ({"before": [{"containerExitCode": 5}]}, "missing field 'patterns'"),
        ({"before": [{"containerExitCode": 5, "patterns": []}]}, "expected a list that is not empty"),
        ({"before": rule("A")}, "expected a list"),
        ({"enable": False}, "did you mean enabled?"),
    ],
)
def test_what_is_wrong_with_a_jobs_own_rules_is_an_error_of_the_job(
    parameters: dict[str, Any], told: str, tmp_path: Path
) -> None:
    done = cli("validate", write_job(tmp_path, job(secrets={"word": "x"}, extras=extras(**parameters))))
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("error") == 2, done.stderr


def run(folder: Path, *commands: str, env: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """The exit record of a job's task, in a process of its own as everything is."""
    file = write_job(folder, job(**{"worker": {"commands": list(commands)}, **fields}))
    done = cli("run", "--isolation", "none", "--out", folder / "run", file, env=env)
    record: dict[str, Any] = yaml.safe_load((folder / "run/worker/0/exit.yaml").read_text())
    assert done.returncode == record["exitCode"]
    return {**record, "stderr": done.stderr, "log": (folder / "run/worker/0/logs/runtime.log").read_text()}


@pytest.mark.process
def test_a_job_that_fails_is_explained_though_it_does_not_name_the_plugin(tmp_path: Path) -> None:
    record = run(tmp_path, "python3 -c 'import no_such_module'")
    assert record["originUserExitCode"] == 1
    assert (record["exitCode"], record["behavior"]) == (232, "PERMANENT")
    assert "no_such_module" in record["errorLogs"]["user"]
    assert "why: " in record["stderr"]
    assert "what to do:" in record["stderr"]


@pytest.mark.process
def test_a_jobs_own_rule_gives_its_exit_code(tmp_path: Path) -> None:
    record = run(tmp_path, "echo boom; exit 3", extras=extras(before=[rule("Boom", 77)]))
    assert (record["exitCode"], record["phrase"], record["originUserExitCode"]) == (77, "Boom", 3)
    assert record["matchedUserLogString"] == "boom"


@pytest.mark.process
def test_what_nothing_explains_keeps_its_own_exit_code(tmp_path: Path) -> None:
    record = run(tmp_path, "echo all is well; exit 3")
    assert record["exitCode"] == 3
    assert "phrase" not in record


@pytest.mark.process
def test_what_the_failure_is_like_that_nothing_explains_is_noted_and_decides_nothing(tmp_path: Path) -> None:
    record = run(tmp_path, "echo 'puller: the name server has no address for host reg.example'; exit 7")
    assert record["exitCode"] == 7
    assert "phrase" not in record
    assert "DnsFailure" in record["notes"][0]


@pytest.mark.process
def test_an_error_that_the_command_handled_does_not_explain_how_it_ended(tmp_path: Path) -> None:
    record = run(tmp_path, "cat no/such/data || echo using the sample; exit 3")
    assert "no/such/data" in record["errorLogs"]["user"]
    assert record["exitCode"] == 3
    assert "phrase" not in record


@pytest.mark.process
def test_a_rule_of_the_cluster_holds_and_what_is_wrong_with_its_spec_does_not_fail_the_job(
    tmp_path: Path,
) -> None:
    spec = tmp_path / "runtime-exit-spec.yaml"
    spec.write_text(yaml.safe_dump([rule("Bad", regex="("), rule("Clusters", 88)]))
    record = run(tmp_path, "echo boom; exit 3", env={CLUSTER_SPEC: str(spec)})
    assert (record["exitCode"], record["phrase"]) == (88, "Clusters")
    assert f"{spec}:" in record["stderr"]
    assert "missing ): (" in record["stderr"]


CONTRIBUTES = """
@hookimpl
def pai_prerequisite(use, task):
    return Contribution(exit_rules=[{rule!r}])
"""


@pytest.mark.process
def test_a_third_partys_rule_holds(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.example.knows", CONTRIBUTES.format(rule=rule("Theirs", 99)))
    fields = uses("org.example.knows")
    fields["worker"]["commands"] = ["echo boom; exit 3"]
    record = run(tmp_path, env=site.environment(), **fields)
    assert (record["exitCode"], record["phrase"]) == (99, "Theirs")
    assert json.loads(json.dumps(record["trigger"])).startswith("rule Theirs (entry 1 of org.example.knows)")
