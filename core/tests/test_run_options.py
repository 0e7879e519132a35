"""Options of ``run`` that say what is run, and how much of it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from pai_document.document import parse_document
from pai_document.problems import Problems
from pai_runtime.job.overrides import Overrides, overridden
from pai_runtime.runs.completion import decision, roles_of
from tests.job_harness import build, command, parameters, yaml_text
from tests.support import callback, cli, cli_each, job, write_job

STORAGE = {"extras": {"storages": [{"name": "data", "mountPath": "/mnt/of-a-job"}]}}


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.name != "job.yaml")


@pytest.mark.process
def test_a_dry_run_starts_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    touch = f"touch {shlex.quote(str(tmp_path))}/touched"
    prerequisite = {"name": "touches", "callbacks": [callback("taskStarts", touch)]}
    worker = {"prerequisites": ["touches"], "commands": [touch], "instances": 3}
    write_job(tmp_path, job(prerequisites=[prerequisite], worker=worker))
    done = cli("run", "job.yaml", "--dry-run", "--isolation", "none", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "3 tasks" in done.stderr
    assert _left(tmp_path) == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("fields", "options", "status"),
    [
        ({}, [], 0),
        ({"worker": {"commands": ["<% $parameters.x %>"]}}, [], 2),
        (STORAGE, [], 2),
        (STORAGE, ["--storage", "data={here}/absent"], 2),
        (STORAGE, ["--isolation", "none", "--storage", "data={here}"], 2),
    ],
    ids=["sound", "wrong job", "no storage", "storage not there", "storage without isolation"],
)
def test_a_dry_run_ends_as_the_run_would_begin(
    tmp_path: Path, fields: dict[str, Any], options: list[str], status: int
) -> None:
    path = write_job(tmp_path, job(**fields))
    given = [option.format(here=tmp_path) for option in options]
    dry, real = cli_each(
        ["run", path, *given, "--dry-run", "--out", tmp_path / "new/dry"],
        ["run", path, *given, "--out", tmp_path / "run"],
    )
    assert (dry.returncode, real.returncode) == (status, status), dry.stderr + real.stderr
    *notes, _ = dry.stderr.splitlines()
    assert not (tmp_path / "new").exists()
    assert set(notes) <= set(real.stderr.splitlines())


@pytest.mark.process
def test_a_dry_run_makes_no_directory_in_a_storage(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    storage.mkdir()
    document = job(extras={"storages": [{"name": "data", "share": False, "mountPath": "/mnt/of-a-job"}]})
    path = write_job(tmp_path, document)
    done = cli("run", path, "--dry-run", "--storage", f"data={storage}", "--out", tmp_path / "run")
    assert (done.returncode in (0, 2), _left(storage)) == (True, []), done.stderr


SETTINGS: dict[str, object] = {
    "0.1": 0.1,
    "3": 3,
    "0x10": 16,
    "true": True,
    "yes": "yes",
    "null": None,
    "": None,
    '"5"': "5",
    "'it''s'": "it's",
    "a: b # c": "a: b # c",
    "[1, 2]": "[1, 2]",
    "a=b": "a=b",
    "*alias": "*alias",
    "two\nlines": "two\nlines",
    "<% $secrets.key %>": "<% $secrets.key %>",
    "<% $parameters.other %>": "<% $parameters.other %>",
}


def _with_uses_of(reference: str) -> dict[str, Any]:
    """A job that gives a plugin what is referred to, and has some parameters."""
    uses = {"name": "uses", "type": "script", "plugin": "cmd", "given": f"<% $parameters{reference} %>"}
    return job(
        prerequisites=[uses],
        worker={"prerequisites": ["uses"], "commands": [f"echo '<% $parameters{reference} %>'"]},
        secrets={"key": "a-secret-value"},
        parameters={"x": "was", "other": 1, "model": {"depth": 1, "sizes": [1, 2]}},
    )


@pytest.mark.parametrize("written", SETTINGS)
def test_a_parameter_is_set_to_plain_data_as_yaml_types_it(written: str) -> None:
    given = build(_with_uses_of(".x"), overrides=Overrides({"x": written}))
    value = parameters(given, "uses")["given"]
    assert (value, type(value)) == (SETTINGS[written], type(SETTINGS[written]))
    shown = "" if value is None else value if isinstance(value, str) else written
    assert command(given) == f"echo '{shown}'\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.depth", {"depth": 5, "sizes": [1, 2]}),
        ("model.sizes.1", {"depth": 1, "sizes": [1, 5]}),
    ],
)
def test_a_parameter_inside_another_is_set_alone(name: str, value: object) -> None:
    given = build(_with_uses_of(".model"), overrides=Overrides({name: "5"}))
    assert parameters(given, "uses")["given"] == value


@pytest.mark.parametrize(
    ("name", "written", "code", "suggestion"),
    [
        ("othr", "1", "no-such-parameter", "other"),
        ("model.dept", "1", "no-such-parameter", "depth"),
        ("model.sizes.2", "1", "no-such-parameter", None),
        ("model.sizes." + "9" * 5000, "1", "no-such-parameter", None),
        ("x.y", "1", "no-such-parameter", None),
        ("..", "1", "no-such-parameter", None),
        ("model", "1", "wrong-type", None),
        ("x", '"open', "unclosed-quote", None),
        ("x", '"a": b', "wrong-type", None),
        ("x", '"\\0key\\0"', "nul", None),
        ("x", "\udc80", "not-yaml", None),
    ],
)
def test_what_cannot_be_set_is_an_error(name: str, written: str, code: str, suggestion: str | None) -> None:
    problems = Problems()
    root = parse_document(yaml_text(_with_uses_of(".x")), "job.yaml")
    overridden(root, Overrides({name: written}), problems)
    (problem,) = problems.in_order
    assert (problem.code, problem.suggestion) == (code, suggestion)
    assert "--set" in str(problem)


def test_a_job_without_parameters_has_none_to_set() -> None:
    for given in ({}, {"parameters": None}, {"parameters": "x"}):
        problems = Problems()
        overridden(parse_document(yaml_text(job(**given)), "job.yaml"), Overrides({"x": "1"}), problems)
        assert [problem.code for problem in problems.in_order] == ["no-such-parameter"]


@pytest.mark.process
def test_validate_plan_and_run_take_the_same_changes(tmp_path: Path) -> None:
    document = job(
        parameters={"lr": 0.5},
        worker={"commands": ["echo <% $parameters.lr %> $PAI_TASK_ROLE_TASK_COUNT_worker"]},
    )
    path = write_job(tmp_path, document)
    changes = ["--set", "lr=1", "--set", "lr=0.25", "--role-instances", "worker=2"]
    misspelt = ["--set", "l=1", "--role-instances", "wrker=2"]
    plan, run, none, *wrong = cli_each(
        ["plan", path, "--json", *changes],
        ["run", path, "--out", tmp_path / "run", *changes],
        ["validate", path, "--role-instances", "worker=0"],
        ["validate", path, *misspelt],
        ["plan", path, *misspelt],
        ["run", path, "--out", tmp_path / "not", *misspelt],
    )
    assert [each["index"] for each in json.loads(plan.stdout)["plans"]] == [0, 1]
    assert sorted(run.stdout.splitlines()) == ["worker/0 | 0.25 2", "worker/1 | 0.25 2"]
    assert (none.returncode, "taskRoles.worker.instances" in none.stderr) == (1, True)
    for done in wrong:
        assert done.returncode in (1, 2)
        assert "--set: error: " in done.stderr
        assert "did you mean worker?" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "option", ["--set=x", "--set==1", "--role-instances=worker", "--role-instances=a=-1"]
)
def test_a_change_that_is_none_is_a_usage_error(option: str) -> None:
    done = cli("run", "job.yaml", option)
    assert (done.returncode, "expected" in done.stderr) == (2, True)


@pytest.mark.process
def test_only_some_tasks_run_and_only_they_decide_the_job(tmp_path: Path) -> None:
    commands = ['echo "$PAI_TASK_ROLE_INSTANCES"', 'test "$PAI_TASK_INDEX" != 2']
    document = job(worker={"instances": 4, "commands": commands, "completion": {"minFailedInstances": 2}})
    document["taskRoles"]["server"] = {
        **document["taskRoles"]["worker"],
        "instances": 1,
        "commands": ["false"],
        "completion": {},
    }
    path = write_job(tmp_path, document)
    succeeds, fails, role, unknown, too_high = cli_each(
        ["run", path, "--out", tmp_path / "1", "--task", "worker/1", "--task", "worker/3"],
        ["run", path, "--out", tmp_path / "2", "--task", "worker/2"],
        ["run", path, "--out", tmp_path / "3", "--task", "server"],
        ["run", path, "--out", tmp_path / "4", "--task", "wrker"],
        ["run", path, "--out", tmp_path / "4", "--task", "worker/4"],
    )
    everybody = "worker:0,worker:1,worker:2,worker:3,server:0"
    assert sorted(succeeds.stdout.splitlines()) == [f"worker/1 | {everybody}", f"worker/3 | {everybody}"]
    assert "only worker/1, worker/3 will run" in succeeds.stderr
    statuses = [each.returncode for each in (succeeds, fails, role, unknown, too_high)]
    assert statuses == [0, 1, 1, 2, 2]
    ran = json.loads((tmp_path / "1/run.json").read_text("utf-8"))["tasks"]
    assert [(task["role"], task["index"], task["state"]) for task in ran] == [
        ("worker", 1, "succeeded"),
        ("worker", 3, "succeeded"),
    ]
    assert not (tmp_path / "1/worker/0").exists()
    assert not (tmp_path / "4").exists()


@pytest.mark.parametrize(
    ("policy", "ended", "code"),
    [
        ({"minSucceededInstances": 3}, {0: 0}, None),
        ({"minSucceededInstances": 3}, {0: 0, 2: 0}, 0),
        ({"minFailedInstances": 3}, {0: 7}, None),
        ({"minFailedInstances": 3}, {0: 7, 2: 7}, 7),
        ({"minFailedInstances": -1}, {0: 7, 2: 7}, 0),
        ({}, {2: 7}, 7),
    ],
)
def test_a_policy_expects_no_more_than_the_tasks_that_run(
    policy: dict[str, int], ended: dict[int, int], code: int | None
) -> None:
    roles = build(job(worker={"instances": 5, "completion": policy})).roles
    reduced = roles_of(roles, [("worker", 0), ("worker", 2)])
    decided = decision(reduced, {("worker", index): status for index, status in ended.items()})
    assert (decided.code if decided else None) == code
