"""The storages of a task in its image, as whole paths for the program that mounts them."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from pai_runtime.engines.local.launch import Bind
from pai_runtime.engines.local.storages import binds, image_binds
from pai_runtime.runs.errors import CannotRun
from pai_task.plan import Command, Mount, Plan, PlannedMount, UseRecord

USE = UseRecord("data", "org.example", "pai-x", "1.0", "", {}, "fail", "job.yaml:1:1", ("worker",), ())


def plan(*mounts: Mount) -> Plan:
    return Plan(
        job="job",
        role="worker",
        index=0,
        folder="/task",
        instances={"worker": 1},
        ports={},
        environment=(),
        uses=(USE,),
        steps=(),
        command=Command("true", "job.yaml:2:1"),
        mounts=tuple(PlannedMount(0, mount) for mount in mounts),
    )


def test_a_link_of_this_machine_where_an_image_has_a_mount_means_nothing(tmp_path: Path) -> None:
    storage, elsewhere = tmp_path / "storage", tmp_path / "elsewhere"
    storage.mkdir()
    (tmp_path / "link").symlink_to(elsewhere)
    target = str(tmp_path / "link")
    mounts = plan(Mount(f"{target}/inner", "data"), Mount(target, "data", sub_path="alice", read_only=True))
    (storage / "alice/inner").mkdir(parents=True)
    assert image_binds(mounts, {"data": storage}, tmp_path / "run", make=True) == [
        Bind(str(storage / "alice"), target, read_only=True),
        Bind(str(storage), f"{target}/inner"),
    ]


@pytest.mark.parametrize(
    ("run", "possible"),
    [
        ("runs/run-1", {image_binds}),
        ("link/run-1", set()),
        ("other/../link/run-1", set()),
        ("other/run-1", {image_binds, binds}),
    ],
)
def test_where_an_image_has_a_mount_only_the_path_of_the_run_may_be_in_its_way(
    tmp_path: Path, run: str, possible: set[object]
) -> None:
    """Unlike on this machine, where a link there leads to the directory of the run."""
    for name in ("storage", "runs", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    mounts = plan(Mount(str(tmp_path / "link"), "data"))
    for make_binds in (image_binds, binds):
        with nullcontext() if make_binds in possible else pytest.raises(CannotRun):
            make_binds(mounts, {"data": tmp_path / "storage"}, tmp_path / run, make=True)


def test_a_link_in_a_storage_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage/alice").symlink_to("/etc")
    mounts = plan(Mount("/data", "data", sub_path="alice"))
    with pytest.raises(CannotRun):
        image_binds(mounts, {"data": tmp_path / "storage"}, tmp_path / "run", make=True)
