"""However much is wrong with a file, it is told in few lines, soon, and the same each time."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import MOST_LOOKED_FOR, MOST_SHOWN
from tests.job_harness import compared_words, load, yaml_text
from tests.plugin_factory import Site
from tests.plugin_factory import uses as plugin_uses
from tests.support import JOBS, callback, cli, cli_each, job, write_job

MANY = MOST_LOOKED_FOR + MOST_SHOWN
NUMBERS = range(MANY)


def image(number: int) -> dict[str, Any]:
    """A prerequisite that must not have a namesake."""
    return {"name": "image", "type": "data", "uri": str(number)}


FAULTY = {
    "unknown keys": job(**{f"comand{number}": 1 for number in NUMBERS}),
    "unknown keys of a role": job(worker={f"comand{number}": 1 for number in NUMBERS}),
    "unknown keys of many roles": job(taskRoles={f"w{number}": {"comands": 1} for number in NUMBERS}),
    "roles of no kind": job(taskRoles={f"w{number}": 1 for number in NUMBERS}),
    "names of roles": job(taskRoles={f"w-{number}": {} for number in NUMBERS}),
    "values of a wrong type": job(worker={"commands": [*NUMBERS]}),
    "prerequisites without a name": job(prerequisites=[{"nam": "x", "callback": 1} for _ in NUMBERS]),
    "prerequisites of one name": job(prerequisites=[image(number) for number in NUMBERS]),
    "prerequisites that are not there": job(
        worker={"prerequisites": [f"imag{number}" for number in NUMBERS]}
    ),
    "requirements": job(prerequisites=[{"name": "p", "require": [f"imag{number}" for number in NUMBERS]}]),
    "references": job(worker={"commands": [f"<% $secrets.x{number} %>" for number in NUMBERS]}),
    "references of no kind": job(worker={"commands": [f"<% $parameter.x{number} %>" for number in NUMBERS]}),
    "roots of references": job(worker={"commands": [f"<% $secret{number}.x %>" for number in NUMBERS]}),
    "callbacks": job(
        prerequisites=[{"name": "p", "callbacks": [callback("taskStart", "x") for _ in NUMBERS]}],
        worker={"prerequisites": ["p"]},
    ),
    "parameters of a plugin": job(
        extras={
            "com.microsoft.pai.runtimeplugin": [
                {"plugin": "ssh", "parameters": {f"jobsh{number}": 1 for number in NUMBERS}}
            ]
        }
    ),
    "parameters of many uses": job(
        extras={
            "com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": {"a": 1}} for _ in NUMBERS]
        }
    ),
    "plugins": job(
        extras={"com.microsoft.pai.runtimeplugin": [{"plugin": f"ssg{number}"} for number in NUMBERS]}
    ),
    "deployments": job(deployments=[{"name": "prod"} for _ in NUMBERS]),
}
TEXTS = {
    "keys that are there twice": "a: 1\n" * MANY,
    "tags": "a: [" + "!x 1, " * MANY + "]\n",
    "NULs": "a: [" + '"\\0", ' * MANY + "]\n",
}


@pytest.mark.process
def test_a_job_with_thousands_of_faults_is_told_in_few_lines_and_each_time_the_same(tmp_path: Path) -> None:
    faulty: dict[str, Mapping[str, Any] | str] = {**FAULTY, **TEXTS}
    paths = [
        write_job(tmp_path, document if isinstance(document, str) else yaml_text(document), f"{name}.yaml")
        for name, document in faulty.items()
    ]
    told, again = (
        cli_each(*(("plan", path) for path in paths), env={"PYTHONHASHSEED": seed}) for seed in ("1", "2")
    )
    for ended, other in zip(told, again, strict=True):
        assert ended.returncode == 1
        assert ended.stderr == other.stderr
        assert len(ended.stderr.splitlines()) == MOST_SHOWN + 1
        assert len(ended.stderr) < MOST_SHOWN * 1000


@pytest.mark.process
def test_json_says_how_many_faults_it_leaves_out(tmp_path: Path) -> None:
    path = write_job(tmp_path, FAULTY["prerequisites that are not there"])
    document = json.loads(cli("validate", path, "--json").stdout)
    assert len(document["problems"]) == MOST_SHOWN
    assert document["more"] == MANY - MOST_SHOWN


@pytest.mark.parametrize("faulty", FAULTY.values(), ids=FAULTY)
def test_only_the_first_of_many_unknown_words_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faulty: dict[str, Any]
) -> None:
    compared = compared_words(monkeypatch)
    load(tmp_path, faulty)
    assert len(compared) <= 2 * MOST_SHOWN


def test_no_more_faults_are_looked_for_than_anybody_mends(tmp_path: Path) -> None:
    problems = load(tmp_path, FAULTY["unknown keys of many roles"])
    assert len(problems) == MOST_LOOKED_FOR + 1
    assert problems[0].position is not None
    assert (problems[0].position.line, problems[1].field) == (1, "taskRoles.w0")


@pytest.mark.process
def test_a_policy_with_thousands_of_faults_is_told_in_few_lines(tmp_path: Path) -> None:
    rules = [{"id": "a.b", "distribution": "x", "versions": f"bad {number}"} for number in NUMBERS]
    for document in (
        {"policyVersion": 1, "plugins": rules},
        {"policyVersion": 1, "plugins": [{"idd": 1} for _ in NUMBERS]},
        {"policyVersion": 1, "plugins": [], **{f"plugin{number}": 1 for number in NUMBERS}},
    ):
        policy = write_job(tmp_path, document, "policy.yaml")
        ended = cli("plan", JOBS / "pre1.yaml", "--policy", policy)
        assert ended.returncode == 2
        assert len(ended.stderr.splitlines()) == MOST_SHOWN + 1


@pytest.mark.process
def test_a_file_of_storages_or_secrets_with_thousands_of_faults_is_told_in_few_lines(tmp_path: Path) -> None:
    job_file = write_job(tmp_path, job())
    storages = write_job(tmp_path, {f"s{number}": 1 for number in NUMBERS}, "storages.yaml")
    ended = cli("run", job_file, "--storage-config", storages, cwd=tmp_path)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, MOST_SHOWN + 2)
    secrets = write_job(tmp_path, "s: 1\n" * MANY, "secrets.yaml")
    ended = cli("plan", job_file, "--secrets", secrets)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, MOST_SHOWN + 1)


@pytest.mark.process
def test_a_manifest_with_thousands_of_faults_is_told_in_one_short_line(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("com.example.faulty", hooks=[f"pai_{number}" for number in NUMBERS])
    path = write_job(tmp_path, job(**plugin_uses("com.example.faulty")))
    for command in (["plugins", "list"], ["plugins", "check", "com.example.faulty"], ["plan", path]):
        ended = site.cli(*command)
        assert len(ended.stdout + ended.stderr) < 20_000
        assert "Traceback" not in ended.stderr
