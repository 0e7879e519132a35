"""What a job says to no effect gives a warning, and one only."""

from pathlib import Path
from typing import Any

import pytest

from tests.job_harness import build, load
from tests.support import job

LIST = "com.microsoft.pai.runtimeplugin"


def extras(**fields: Any) -> dict[str, Any]:
    return job(extras=fields)


def completion(**counts: int) -> dict[str, Any]:
    return job(worker={"instances": 2, "completion": counts})


@pytest.mark.parametrize(
    ("document", "field", "meant"),
    [
        (
            extras(tensorBoard={"randomStr": "a1b2c3d4", "logDirectories": {"a": "/x"}}),
            "extras.tensorBoard",
            None,
        ),
        (extras(tensorboard=None), "extras.tensorboard", None),
        (extras(ssh={}), "extras.ssh", None),
        (extras(gangAlocation=False), "extras.gangAlocation", "gangAllocation"),
        (extras(holdonfailure="1h"), "extras.holdonfailure", "holdOnFailure"),
        (extras(storage=[]), "extras.storage", "storages"),
        (extras(**{f"{LIST}s": [{"plugin": "cmd"}]}), f"extras.{LIST}s", LIST),
        (completion(minFailedInstances=5), "taskRoles.worker.completion.minFailedInstances", None),
        (completion(minSucceededInstances=3), "taskRoles.worker.completion.minSucceededInstances", None),
        (job(worker={"protocolVersion": 2}), "taskRoles.worker.protocolVersion", None),
        (job(worker={"taskRetryCount": 1}), "taskRoles.worker.taskRetryCount", None),
        (job(worker={"taskRetryCount": -2}), "taskRoles.worker.taskRetryCount", None),
        (
            job(worker={"taskRetryCount": -1}, extras={"gangAllocation": False}),
            "taskRoles.worker.taskRetryCount",
            None,
        ),
        (job(deployments=[{"name": "d", "own": 1, "taskRoles": {}}]), "deployments[0].own", None),
        (
            job(deployments=[{"name": "d", "desription": "x", "taskRoles": {}}]),
            "deployments[0].desription",
            "description",
        ),
        (
            job(deployments=[{"name": "d", "protocolVersion": "2", "taskRoles": {}}]),
            "deployments[0].protocolVersion",
            None,
        ),
        (
            extras(**{LIST: [{"plugin": "cmd", "hook": "preTaskStarts"}]}),
            f"extras.{LIST}[0].hook",
            None,
        ),
        (job(prerequisites=[{"name": "a", "type": "data"}]), "prerequisites[1]", None),
        (job(prerequisites=[{"name": "a", "type": "dockerimage", "uri": "x"}]), "prerequisites[1]", None),
    ],
)
def test_what_has_no_effect_gives_one_warning(
    tmp_path: Path, document: dict[str, Any], field: str, meant: str | None
) -> None:
    (problem,) = load(tmp_path, document)
    assert (problem.severity, problem.field, problem.suggestion) == ("warning", field, meant)
    assert problem.code in ("no-effect", "unknown-field", "unused-prerequisite")


@pytest.mark.parametrize(
    "document",
    [
        extras(submitFrom="submit-job-v2", hivedScheduler={}, jobStatusChangeNotification={}, mode="x"),
        completion(minFailedInstances=2, minSucceededInstances=2),
        completion(minFailedInstances=-1, minSucceededInstances=-1),
        completion(minFailedInstances=0, minSucceededInstances=0),
    ],
)
def test_what_other_tools_write_and_what_has_an_effect_gives_none(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    assert load(tmp_path, document) == ()


@pytest.mark.parametrize("key", ["own", "require", "plugin", "parameters"])
def test_what_the_platform_refuses_of_a_docker_image_gives_a_warning(tmp_path: Path, key: str) -> None:
    document = job()
    document["prerequisites"][0][key] = [] if key == "require" else "x" if key == "plugin" else {"a": 1}
    (problem,) = load(tmp_path, document)
    assert (problem.severity, problem.code) == ("warning", "unknown-field")
    assert problem.field == f"prerequisites[0].{key}"


def test_a_negative_count_of_retries_means_none() -> None:
    given = job(worker={"taskRetryCount": -1}, extras={"gangAllocation": False})
    assert build(given).roles["worker"].retries == 0


def test_a_count_of_0_means_the_default() -> None:
    role = build(completion(minFailedInstances=0, minSucceededInstances=0)).roles["worker"]
    assert (role.min_failed, role.min_succeeded) == (None, None)


# Prerequisites that nothing uses


def unused(folder: Path, worker: dict[str, Any], *prerequisites: dict[str, Any]) -> list[str]:
    """The names of those that are reported."""
    problems = load(folder, job(worker=worker, prerequisites=list(prerequisites)))
    assert {problem.code for problem in problems} <= {"unused-prerequisite"}
    return [problem.message.split("'")[1] for problem in problems]


def item(name: str, kind: str, *require: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "require": list(require)}


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        ({}, ["top", "other"]),
        ({"prerequisites": ["top"]}, ["other"]),
        ({"data": "base"}, ["top", "other"]),
        ({"data": "base", "script": "top", "output": "other"}, []),
        ({"prerequisites": ["other", "top"]}, []),
    ],
)
def test_a_prerequisite_is_used_if_a_role_names_it_or_what_requires_it(
    tmp_path: Path, worker: dict[str, Any], expected: list[str]
) -> None:
    """Of those that nothing uses, what only they require is not reported too."""
    items = [item("base", "data"), item("top", "script", "base"), item("other", "output")]
    assert unused(tmp_path, worker, *items) == expected


def test_while_a_name_is_wrong_none_is_called_unused(tmp_path: Path) -> None:
    (problem,) = load(
        tmp_path, job(worker={"prerequisites": ["mnst"]}, prerequisites=[item("mnist", "data")])
    )
    assert problem.code == "no-such-prerequisite"
