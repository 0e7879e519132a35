"""What sidecars have copied to a storage is read there when the cluster has removed the pods."""

import json
from pathlib import Path

import pytest

from pai_kubernetes.api import paths
from pai_kubernetes.profile import MountedStorage, Storage
from pai_kubernetes.run.reader import Reader
from pai_pod.engine import kept_output
from pai_runtime.runs.state import Run, Unreadable
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster
from tests.kubernetes.run_objects import NAME, running, terminated
from tests.small_cluster import write_profiles
from tests.support import cli


@pytest.fixture
def cluster(server: ApiServer) -> PlayedCluster:
    """A cluster with a run that has failed, and of which no pod is left."""
    cluster = PlayedCluster(server)
    cluster.end("Failed")
    return cluster


@pytest.fixture
def mounted(tmp_path: Path, cluster: PlayedCluster) -> Path:
    """The storage on this machine, with two attempts of the first worker."""
    made = tmp_path / "mnt"
    for attempt in range(2):
        folder = made / _path(cluster) / str(attempt)
        folder.mkdir(parents=True)
        (folder / "user.log").write_text(f"attempt {attempt}\n")
        (folder / "runtime.log").write_text("runtime\n")
        (folder / "exit.yaml").write_text(
            f'exitCode: {attempt + 3}\noutcome: "failed"\nmessage: "exit code {attempt + 3}"\n'
        )
        (folder / "variables.json").write_text('{"A": {"source": "cmd", "value": "1"}}')
    return made


def _path(cluster: PlayedCluster) -> str:
    return kept_output.task_output_path(NAME, cluster.jobset["metadata"]["uid"], "worker", 0)


def _reader(cluster: PlayedCluster, mounted_at: Path | str = "") -> Reader:
    storage = Storage("results", claim="results")
    return Reader(cluster.api, NAME, "lab", output=MountedStorage(storage, str(mounted_at)))


def _run(reader: Reader) -> Run:
    run = reader.run()
    assert isinstance(run, Run)
    return run


def test_a_task_whose_pod_is_gone_is_read_on_the_storage(cluster: PlayedCluster, mounted: Path) -> None:
    reader = _reader(cluster, mounted)
    first, second = _run(reader).tasks
    assert first.retries == 1
    assert str(mounted / _path(cluster)) in first.note
    assert reader.log(first, "user").read(100) == b"attempt 1\n"
    assert reader.log(first, "user", 0).read(100) == b"attempt 0\n"
    assert reader.log(first, "runtime").tail(100) == b"runtime\n"
    assert reader.exit_record(first)["exitCode"] == 4
    variables = reader.variables(first)
    assert list(variables.known) == ["A"]
    assert variables.missing
    assert (second.retries, reader.log(second, "user").read(100), reader.exit_record(second)) == (0, b"", {})
    with pytest.raises(OSError, match="pod"):
        reader.variables(second)


def test_what_the_cluster_has_counts_more_than_what_is_on_the_storage(
    cluster: PlayedCluster, mounted: Path
) -> None:
    cluster.server.log(cluster.pod(status=terminated(7)), "app", b"there\n", ended=True)
    cluster.pod(index=1, status=running())
    reader = _reader(cluster, mounted)
    task, _ = _run(reader).tasks
    assert (task.exit_code, task.retries, task.note) == (7, 0, "")
    assert reader.log(task, "user").read(100) == b"there\n"
    assert reader.exit_record(task).get("exitCode") != 4


def test_without_a_directory_of_this_machine_it_is_said_where_on_the_storage_the_output_is(
    cluster: PlayedCluster,
) -> None:
    reader = _reader(cluster)
    task, _ = _run(reader).tasks
    assert "'results'" in task.note
    assert _path(cluster) in task.note
    assert not reader.exit_record(task)


def test_the_output_of_another_run_of_the_same_name_is_not_taken_for_that_of_this_one(
    cluster: PlayedCluster, mounted: Path
) -> None:
    (mounted / _path(cluster)).parents[1].rename(mounted / NAME / "other")
    reader = _reader(cluster, mounted)
    assert not reader.exit_record(_run(reader).tasks[0])


def test_of_a_run_that_is_gone_it_is_said_where_its_output_is(cluster: PlayedCluster, mounted: Path) -> None:
    cluster.server.remove(paths.jobsets(NAMESPACE, NAME))
    run = _reader(cluster, mounted).run()
    assert isinstance(run, Unreadable)
    assert run.is_missing
    assert str(mounted / NAME) in run.reason


@pytest.mark.process
def test_the_commands_read_it(
    cluster: PlayedCluster, mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = {
        "engine": "kubernetes",
        "kubeconfig": str(cluster.server.kubeconfig(tmp_path)),
        "runtimeImage": "registry.example/pai:1",
        "storages": {"results": {"claim": "results"}},
        "output": {"storage": "results", "mountedAt": str(mounted)},
    }
    write_profiles(tmp_path / "config", f"  lab: {json.dumps(profile)}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for command, said in (
        (["logs"], "attempt 1"),
        (["logs", "--attempt", "0"], "attempt 0"),
        (["variables"], "A=1"),
        (["analyze"], "exit code 4"),
    ):
        name, *options = command
        result = cli(name, NAME, "worker/0", *options, "--on", "lab")
        assert said in result.stdout, result


@pytest.mark.parametrize("part", ["demo", "attempt", "log"])
def test_no_link_on_the_storage_leads_out_of_it(
    cluster: PlayedCluster, mounted: Path, tmp_path: Path, part: str
) -> None:
    task_folder = mounted / _path(cluster)
    path = {"demo": mounted / NAME, "attempt": task_folder / "1", "log": task_folder / "1" / "user.log"}[part]
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    reader = _reader(cluster, mounted)
    task, _ = _run(reader).tasks
    try:
        read = reader.log(task, "user").read(100)
    except OSError:
        read = b""
    assert b"attempt 1" not in read
