"""The code of a job comes to its tasks on OpenPAI: in the job if it is small, or on a storage."""

import os
from pathlib import Path
from typing import Any

import pytest

from pai_openpai.job_check import MOST_BYTES
from pai_runtime.runs.errors import CannotRun
from pai_task.code_archive import STORED_IN
from pai_task.folder import MOST_LEVELS
from tests.openpai.cluster import User
from tests.openpai.lab import Lab, run_of
from tests.openpai.planned_jobs import cmd
from tests.openpai.rest_server import Fault
from tests.support import job

pytestmark = pytest.mark.process

WHOLE = 'test "$(./train.sh)" = trained && test "$(readlink last)" = data/one && test "$(cat last)" = 1'


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "one").write_text("1")
    (folder / "last").symlink_to("data/one")
    (folder / "train.sh").write_text("#!/bin/sh\necho trained\n")
    (folder / "train.sh").chmod(0o755)
    return folder


@pytest.fixture
def mounted(openpai: Lab, tmp_path: Path) -> Lab:
    """A user whose machine has the cluster's storage, as its tasks have it at another path."""
    (tmp_path / "here").mkdir()
    (tmp_path / "it's there").symlink_to("here")
    return Lab(openpai.server, code={"storage": "datasets", "mountedAt": str(tmp_path / "here")})


def with_storage(folder: Path, command: str) -> dict[str, Any]:
    storages = [{"name": "datasets", "mountPath": str(folder / "it's there")}]
    return job(extras={"storages": storages}, worker={"commands": [command]})


def submitted(lab: Lab, document: dict[str, Any], code: Path) -> Any:
    planned = lab.planned(document, code)
    assert not [each for each in planned.checked() if each.severity == "error"]
    return planned.submit()


def roles(count: int, command: str) -> dict[str, Any]:
    role = {**job()["taskRoles"]["worker"], "commands": [command]}
    return job(taskRoles={f"role{index}": role for index in range(count)})


def test_code_in_the_job_is_in_the_working_directory_of_all_commands(openpai: Lab, code: Path) -> None:
    reader = submitted(openpai, roles(2, WHOLE), code)
    assert openpai.ended(reader).outcome == "succeeded"
    (posted,) = openpai.asked("POST", "/jobs")
    assert [posted.body.count(each) for each in (b"parameters.code", b"\n  code: ")] == [2, 1]


def test_code_that_fills_the_job_is_accepted(openpai: Lab, code: Path) -> None:
    (code / "weights").write_bytes(os.urandom(74_000))
    reader = submitted(openpai, job(worker={"commands": ["test -s weights"]}), code)
    assert openpai.ended(reader).outcome == "succeeded"


def test_code_on_a_storage_is_copied_from_there_if_it_is_the_same(
    mounted: Lab, code: Path, tmp_path: Path
) -> None:
    (code / "weights").write_bytes(os.urandom(200_000))
    mounted.server.cluster.begin.clear()
    readers = [submitted(mounted, with_storage(tmp_path, WHOLE), code)]
    (code / "weights").unlink()
    readers.append(submitted(mounted, with_storage(tmp_path, "true"), code))
    smallest = min((tmp_path / "here" / STORED_IN).glob("*.gz"), key=lambda path: path.stat().st_size)
    smallest.write_bytes(b"")
    mounted.server.cluster.begin.set()
    assert [mounted.ended(reader).outcome for reader in readers] == ["succeeded", "failed"]
    assert not [each for each in mounted.asked("POST", "/jobs") if b"parameters" in each.body]


def test_code_on_a_storage_is_removed_if_there_is_no_run(mounted: Lab, code: Path, tmp_path: Path) -> None:
    mounted.server.arm(Fault(413, b""), "POST", "/jobs")
    with pytest.raises(CannotRun):
        submitted(mounted, with_storage(tmp_path, WHOLE), code)
    assert list((tmp_path / "here" / STORED_IN).iterdir()) == []


def test_a_storage_that_the_job_does_not_mount_is_mounted_for_its_code(mounted: Lab, code: Path) -> None:
    mounted.server.cluster.begin.clear()
    reader = submitted(mounted, job(), code)
    (storage,) = mounted.job(reader).submission.public["extras"]["storages"]
    assert storage["name"] == "datasets"
    assert f"cp {storage['mountPath']}/" in mounted.job(reader).submission.commands["worker"]


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("others", "/mnt", ["extras.storages[0].name"]),
        ("others", "/mnt/pai-code", ["extras.storages[0].name"]),
        ("others", "/mnt/pai-code/more", ["extras.storages[0].name"]),
        ("others", "/mnt/pai-codes", []),
        ("datasets", "/mnt", []),
    ],
)
def test_no_other_storage_may_be_mounted_where_that_with_the_code_is(
    mounted: Lab, code: Path, name: str, path: str, expected: list[str]
) -> None:
    cluster = mounted.server.cluster
    cluster.users["alice"] = User("alice-password", storages=("datasets", "others"))
    cluster.storages["others"] = {**cluster.storages["datasets"], "name": "others"}
    document = job(extras={"storages": [{"name": name, "mountPath": path}]})
    problems = mounted.planned(document, code).checked()
    assert [each.field for each in problems if each.code == "wrong-code-storage"] == expected
    assert len(problems) == len(expected)


@pytest.mark.parametrize("has_code", [0, 1])
def test_the_size_is_that_of_what_will_be_posted(
    openpai: Lab, code: Path, tmp_path: Path, has_code: int
) -> None:
    storage = {"storage": "datasets", "mountedAt": str(tmp_path)}
    lab, files = Lab(openpai.server, virtualCluster="default", code=storage), code if has_code else None
    lab.server.cluster.begin.clear()
    lab.planned(job(description="x"), files).submit()
    (posted,) = lab.asked("POST", "/jobs")
    rest = MOST_BYTES - len(posted.body)
    for more, expected in ((1, []), (2, ["job-too-large"])):
        problems = lab.planned(job(description="x" * (rest + more)), files).checked()
        assert [each.code for each in problems] == expected


def test_a_short_secret_that_the_archive_has_by_chance_is_no_leak(openpai: Lab, code: Path) -> None:
    reader = submitted(openpai, job(secrets={"key": "H4sI"}, worker={"commands": [WHOLE]}), code)
    assert run_of(reader).note == ""
    assert openpai.ended(reader).outcome == "succeeded"


@pytest.mark.parametrize(
    ("size", "count", "storages", "share", "expected"),
    [
        (0, 1, None, True, [("code-shown", "warning")]),
        (80_000, 1, None, True, [("code-shown", "warning"), ("code-too-large", "error")]),
        (60_000, 12, None, True, [("code-shown", "warning"), ("code-too-large", "error")]),
        (80_000, 1, ("datasets",), True, []),
        (0, 1, ("private",), True, [("wrong-code-storage", "error")]),
        (0, 1, ("datasets",), False, [("wrong-code-storage", "error")]),
    ],
)
def test_what_is_said_of_code_before_it_is_submitted(
    openpai: Lab,
    code: Path,
    size: int,
    count: int,
    storages: tuple[str, ...] | None,
    share: bool,  # noqa: FBT001 - a column of the table
    expected: list[tuple[str, str]],
) -> None:
    (code / "weights").write_bytes(os.urandom(size))
    cluster, profile = openpai.server.cluster, {}
    if storages is not None:
        cluster.users["alice"] = User("alice-password", storages=storages)
        cluster.storages["datasets"] = {**cluster.storages["datasets"], "share": share}
        profile = {"code": {"storage": "datasets", "mountedAt": "/nowhere"}}
    problems = Lab(openpai.server, **profile).planned(roles(count, "true"), code).checked()
    assert [(each.code, each.severity) for each in problems] == expected
    if size == 80_000 and storages is None:
        assert "weights (78.1 KiB)" in problems[-1].message


def test_code_that_cannot_be_read_is_not_said_to_be_too_large(openpai: Lab, code: Path) -> None:
    code.joinpath(*["d"] * (MOST_LEVELS + 1)).mkdir(parents=True)
    (problem,) = [each for each in openpai.planned(job(), code).checked() if each.severity == "error"]
    assert problem.code == "unreadable"
    assert str(problem.position).startswith(f"{code}/d/d/")


def test_commands_of_plugins_are_said_to_have_no_code(openpai: Lab, code: Path) -> None:
    document = job(prerequisites=[cmd("prepare", "true")], worker={"prerequisites": ["prepare"]})
    (warning,) = [
        each for each in openpai.planned(document, code).checked() if each.code == "code-in-commands-only"
    ]
    assert "'prepare'" in warning.message
