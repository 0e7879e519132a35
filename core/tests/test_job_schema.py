"""What each field of a job may hold."""

from pathlib import Path
from typing import Any

import pytest

from tests.job_harness import build, load
from tests.support import job


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small valid job with `value` in one place."""
    document = job(
        deployments=[{"name": "d", "taskRoles": {"worker": {"preCommands": ["a"]}}}],
        extras={"com.microsoft.pai.runtimeplugin": [{"plugin": "cmd"}]},
        prerequisites=[{"name": "p", "type": "script"}],
        defaults={},
        worker={"completion": {}, "extraContainerOptions": {}, "instances": 2, "prerequisites": ["p"]},
    )
    place: Any = document
    *above, last = (int(part) if part.isdecimal() else part for part in path.split("/"))
    for part in above:
        place = place[part]
    place[last] = value
    return document


ROLE = "taskRoles/worker"
RESOURCES = f"{ROLE}/resourcePerInstance"
COMPLETION = f"{ROLE}/completion"
EXTRA = "extras/com.microsoft.pai.runtimeplugin/0"

ACCEPTED: dict[str, list[Any]] = {
    "protocolVersion": [2, "2"],
    "name": ["a", "0", "-", "_", "A-b_9", "n" * 255],
    "version": [1.0, "1.0", None],
    "prerequisites/0/uri": ["image"],
    "prerequisites/1/uri": ["text", ["a", "b"], []],
    "prerequisites/1/protocolVersion": [2, "2"],
    "prerequisites/1/anything": [1, None, ["a"], {"b": "c"}, True],
    "prerequisites/1/type": ["data", "output", "storage", "anything"],
    "prerequisites/1/failurePolicy": ["fail", "ignore"],
    "prerequisites/1/require": [None, []],
    "prerequisites/1/callbacks": [None, []],
    "prerequisites/0/auth": [None, {"username": "u", "password": "p", "registryuri": "r"}],
    "parameters": [None, {}, {"a": [1]}],
    "secrets": [None, {}, {"a": ["x"], "b": {"c": "d"}}],
    "jobRetryCount": [None, 0, 7],
    "deployments/0/version": [1.0],
    "deployments": [None, []],
    "defaults": [None, {"virtualCluster": "x"}, {"virtualCluster": None}],
    "extras": [None, {"gangAllocation": False}, {"com.example": 1}],
    f"{EXTRA}/taskroles": [None, [], ["worker"]],
    f"{ROLE}/instances": [None, 1, 1000],
    f"{ROLE}/taskRetryCount": [None, 0],
    f"{ROLE}/completion": [None, {}],
    f"{COMPLETION}/minFailedInstances": [None, -1, 0, 1, 2],
    f"{COMPLETION}/minSucceededInstances": [None, -1, 0, 1, 2],
    f"{ROLE}/extraContainerOptions": [None, {"shmMB": 0, "infiniband": True}],
    f"{RESOURCES}/cpu": [0],
    f"{RESOURCES}/memoryMB": [0],
    f"{RESOURCES}/gpu": [0],
    f"{RESOURCES}/ports": [None, {}, {"ssh": 1, "my_port": 1000}],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [(path, value) for path, values in ACCEPTED.items() for value in values],
)
def test_what_the_protocol_allows_is_accepted(tmp_path: Path, path: str, value: Any) -> None:
    assert load(tmp_path, changed(path, value)) == ()


NAME = "a name of letters, digits, '-' and '_', at most 255 characters"
IDENTIFIER = "a name of letters, digits and '_' that does not start with a digit, at most 255 characters"
COUNT = "-1, 0 for the default, or a number of instances"

REFUSED: dict[str, list[tuple[Any, str | None, str | None]]] = {
    "protocolVersion": [(1, "1", "2"), ("2.0", '"2.0"', "2"), (None, "nothing", "2"), (True, "true", "2")],
    "name": [
        ("", '""', NAME),
        ("a b", '"a b"', NAME),
        ("a/../b", '"a/../b"', NAME),
        ("a\n", '"a\\n"', NAME),
        ("é", '"é"', NAME),
        (5, "5", NAME),
        (["a"], "a list", NAME),
        ("n" * 256, f'"{"n" * 59}…', NAME),
    ],
    "type": [("data", '"data"', "job"), ({}, "a mapping", "job")],
    "prerequisites": [({}, "a mapping", "a list or nothing"), ("x", '"x"', "a list or nothing")],
    "prerequisites/1": [(None, "nothing", "a mapping"), (5, "5", "a mapping")],
    "prerequisites/1/name": [("a\n", '"a\\n"', NAME), ("n" * 256, f'"{"n" * 59}…', NAME)],
    "prerequisites/1/uri": [
        (5, "5", "a string, or a list of strings"),
        ({}, "a mapping", "a string, or a list of strings"),
    ],
    "prerequisites/0/uri": [(["a"], "a list", "the name of a docker image")],
    "prerequisites/1/plugin": [("", '""', "a string that is not empty"), (None, "nothing", "a string")],
    "prerequisites/1/require": [("p", '"p"', "a list or nothing")],
    "prerequisites/1/failurePolicy": [("ignore/fail", '"ignore/fail"', "one of fail, ignore")],
    "prerequisites/1/type": [
        ("job", '"job"', "the kind of prerequisite: dockerimage, data, script, output, storage, …")
    ],
    "parameters": [([], "a list", "a mapping or nothing")],
    "jobRetryCount": [
        (-1, "-1", "a whole number or nothing, at least 0"),
        (1.5, "1.5", "a whole number or nothing"),
        (True, "true", "a whole number or nothing"),
    ],
    "taskRoles": [({}, "a mapping", "a mapping with at least one task role"), ([], "a list", None)],
    f"{ROLE}/instances": [
        (0, "0", "a whole number or nothing, at least 1, at most 100000"),
        (100_001, "100001", "a whole number or nothing, at least 1, at most 100000"),
        ("3", '"3"', "a whole number or nothing"),
        ("yes", '"yes"', "a whole number or nothing"),
        (".inf", '".inf"', "a whole number or nothing"),
        ("9" * 400, '"' + "9" * 59 + "…", "a whole number or nothing"),
    ],
    f"{ROLE}/dockerImage": [("", '""', "the name of a prerequisite of type dockerimage")],
    f"{COMPLETION}/minFailedInstances": [(-2, "-2", COUNT), ("1", '"1"', COUNT)],
    f"{COMPLETION}/minSucceededInstances": [(-2, "-2", COUNT), (1.5, "1.5", COUNT)],
    f"{ROLE}/commands": [
        ([], "a list", "a list of shell commands"),
        ("true", '"true"', "a list of shell commands"),
        (None, "nothing", "a list of shell commands"),
    ],
    f"{ROLE}/commands/0": [
        (5, "5", "a shell command"),
        (True, "true", "a shell command"),
        (None, "nothing", "a shell command"),
        (["a"], "a list", "a shell command"),
    ],
    f"{RESOURCES}/cpu": [(-1, "-1", "a whole number, at least 0"), (0.5, "0.5", "a whole number")],
    f"{RESOURCES}/gpu": [(-1, "-1", "a whole number, at least 0")],
    f"{RESOURCES}/ports": [
        ({"a": 0}, "0", "a whole number, at least 1, at most 1000"),
        ({"a": 1001}, "1001", "a whole number, at least 1, at most 1000"),
        ({"a-b": 1}, '"a-b"', IDENTIFIER),
        ({"a\n": 1}, '"a\\n"', IDENTIFIER),
        ({"a" * 256: 1}, f'"{"a" * 59}…', IDENTIFIER),
    ],
    "deployments/0/taskRoles/worker/preCommands": [("a", '"a"', "a list of shell commands")],
    f"{EXTRA}/plugin": [("", '""', "a string that is not empty"), (3, "3", "a string")],
    f"{EXTRA}/taskroles": [("worker", '"worker"', "a list or nothing")],
    f"{EXTRA}/parameters": [([1], "a list", "a mapping or nothing")],
}


@pytest.mark.parametrize(
    ("path", "value", "found", "expected"),
    [(path, *case) for path, cases in REFUSED.items() for case in cases],
)
def test_what_the_protocol_does_not_allow_is_refused_with_what_was_found_and_expected(
    tmp_path: Path, path: str, value: Any, found: str | None, expected: str | None
) -> None:
    problems = load(tmp_path, changed(path, value))
    about = [problem for problem in problems if problem.code in ("wrong-type", "wrong-value", "wrong-name")]
    assert [problem.found for problem in about] == [found]
    assert expected is None or about[0].expected == expected
    field = about[0].field.replace("[", ".").replace("]", "")
    assert field.startswith(path.replace("/", "."))
    assert about[0].position is not None
    assert about[0].position.line > 1 or path == "protocolVersion"


@pytest.mark.parametrize("name", ["1a", "a-b", "a b", "", "a\n", "é", "a/b", "a" * 256])
def test_a_task_role_has_the_name_of_a_variable(tmp_path: Path, name: str) -> None:
    problems = load(tmp_path, {**job(), "taskRoles": {name: job()["taskRoles"]["worker"]}})
    assert problems[0].expected == IDENTIFIER


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("taskroles", "taskRoles"),
        ("TaskRoles", "taskRoles"),
        ("task_roles", "taskRoles"),
        ("taskRole", "taskRoles"),
        ("parameter", "parameters"),
        ("secret", "secrets"),
        ("deployment", "deployments"),
        ("default", "defaults"),
        ("extra", "extras"),
        ("protocolversion", "protocolVersion"),
        ("jobRetrycount", "jobRetryCount"),
        ("zzz", None),
    ],
)
def test_an_unknown_field_is_refused_with_what_was_probably_meant(
    tmp_path: Path, written: str, meant: str | None
) -> None:
    document = job()
    document[written] = document.pop(meant, None) if meant else None
    (problem,) = load(tmp_path, document)
    assert (problem.code, problem.field, problem.suggestion) == ("unknown-field", written, meant)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        (f"{ROLE}/instance", "instances"),
        (f"{ROLE}/command", "commands"),
        (f"{ROLE}/dockerimage", "dockerImage"),
        (f"{ROLE}/env", None),
        (f"{COMPLETION}/minfailedInstances", "minFailedInstances"),
        (f"{RESOURCES}/memory", "memoryMB"),
        (f"{RESOURCES}/gpus", "gpu"),
        (f"{ROLE}/extraContainerOptions/shm", "shmMB"),
        ("deployments/0/taskRoles/worker/precommands", "preCommands"),
        (f"{EXTRA}/taskRoles", "taskroles"),
        ("prerequisites/0/auth", "password"),
        ("prerequisites/1/callback", "callbacks"),
        ("prerequisites/1/requires", "require"),
        ("prerequisites/1/Plugin", "plugin"),
        ("prerequisites/1/failurepolicy", "failurePolicy"),
    ],
)
def test_an_unknown_field_anywhere_is_refused(tmp_path: Path, path: str, meant: str | None) -> None:
    (problem,) = load(tmp_path, changed(path, {"passwrd": "x"} if path.endswith("auth") else []))
    assert (problem.code, problem.suggestion) == ("unknown-field", meant)


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("protocolVersion", ""),
        ("name", ""),
        ("type", ""),
        ("taskRoles", ""),
        ("uri", "prerequisites/0"),
        ("name", "prerequisites/1"),
        ("dockerImage", ROLE),
        ("resourcePerInstance", ROLE),
        ("commands", ROLE),
        ("cpu", RESOURCES),
        ("memoryMB", RESOURCES),
        ("gpu", RESOURCES),
        ("plugin", EXTRA),
        ("taskRoles", "deployments/0"),
    ],
)
def test_a_field_that_is_missing_is_named(tmp_path: Path, name: str, above: str) -> None:
    document = changed("type", "job")
    place: Any = document
    for part in filter(None, above.split("/")):
        place = place[int(part) if part.isdecimal() else part]
    del place[name]
    missing = [problem for problem in load(tmp_path, document) if problem.code == "missing-field"]
    assert any(f"'{name}'" in problem.message for problem in missing)


@pytest.mark.parametrize(
    ("prerequisite", "written", "missing"),
    [
        ({"name": "i", "type": "dockerimage", "URI": "x"}, "URI", "uri"),
        ({"Name": "ds", "type": "data"}, "Name", "name"),
    ],
)
def test_a_field_that_is_missing_since_it_is_misspelt_is_an_error(
    tmp_path: Path, prerequisite: dict[str, Any], written: str, missing: str
) -> None:
    """Although a prerequisite may have any other field."""
    (problem,) = load(tmp_path, job(prerequisites=[prerequisite]))
    assert (problem.code, problem.severity, problem.field) == (
        "missing-field",
        "error",
        f"prerequisites[1].{written}",
    )
    assert (problem.found, problem.suggestion) == (f"'{written}'", missing)


@pytest.mark.parametrize("key", ["env", "environment"])
def test_who_looks_for_variables_of_a_role_is_told_how_to_set_them(tmp_path: Path, key: str) -> None:
    (problem,) = load(tmp_path, job(worker={key: {"A": "b"}}))
    assert (problem.code, problem.field) == ("unknown-field", f"taskRoles.worker.{key}")
    assert "export NAME=value" in problem.message
    assert "extras.environment" in problem.message


def test_whole_numbers_written_with_a_point_are_meant_as_they_are() -> None:
    resources = {"cpu": 2.0, "memoryMB": 100.0, "gpu": 3.0, "ports": {"a": 4.0}}
    completion = {"minFailedInstances": -1.0, "minSucceededInstances": 2.0}
    document = job(worker={"instances": 5.0, "resourcePerInstance": resources, "completion": completion})
    role = build(document).roles["worker"]
    assert (role.instances, role.cpu, role.memory_mb, role.gpu, role.ports) == (5, 2, 100, 3, {"a": 4})
    assert (role.min_failed, role.min_succeeded) == (-1, 2)
    assert isinstance(role.instances, int)
