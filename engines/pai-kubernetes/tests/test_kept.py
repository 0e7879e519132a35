"""What was read of a run that was followed is there when the cluster has removed its pods, or all of it."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pai_kubernetes.api import paths
from pai_kubernetes.run.reader import Reader
from pai_pod.told_variables import told_line
from pai_runtime.runs.errors import CannotRemove
from pai_runtime.runs.reader import LogReader
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.terminal.following import follow
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster, PlayedView
from tests.kubernetes.run_objects import NAME, record, running, terminated

OWN = {"PAI_TASK_INDEX": {"source": "platform", "value": "0"}}


def _reader(cluster: PlayedCluster) -> Reader:
    return Reader(cluster.api, NAME, "lab")


def _run(reader: Reader) -> Run:
    run = reader.run()
    assert isinstance(run, Run)
    return run


def _followed(cluster: PlayedCluster, keep: Path | None = None, *, is_kept: bool = True) -> PlayedView:
    """A run whose first worker succeeds, whose second then fails it, and whose pods are then all removed."""
    server, reader = cluster.server, Reader(cluster.api, NAME, "lab", keep=keep)
    pods = [cluster.pod(index=index, status=_with_sidecar(running())) for index in range(2)]
    for index, pod in enumerate(pods):
        server.log(pod, "app", f"output {index}\n".encode())
        server.log(pod, "init", b"init\n", ended=True)
        server.log(pod, "runtime-log", b"runtime\n" + told_line(OWN))
    seen: dict[str, bytes] = {}
    done: list[str] = []

    def once(what: str, is_time: bool, do: Callable[[], object]) -> None:  # noqa: FBT001 - of a script
        if is_time and what not in done:
            done.append(what)
            do()

    def succeed() -> None:
        server.log(pods[0], "app", b"", ended=True)
        cluster.pod(index=0, status=_with_sidecar(terminated(0)))

    def fail() -> None:
        server.log(pods[1], "app", b"", ended=True)
        cluster.pod(index=1, status=_with_sidecar(terminated(3, record(3, message="no data"))))

    def decide() -> None:
        for pod in pods:
            server.remove(paths.pods(NAMESPACE, pod))
        cluster.end("Failed")

    def script(run: Run) -> None:
        for task in run.tasks:
            log = logs.setdefault(task.name, reader.log(task, "user"))
            seen[task.name] = seen.get(task.name, b"") + log.read(100)
        states = [task.state for task in run.tasks]
        once("succeed", all(seen.values()), succeed)
        of_sidecars = sum(each.query.get("container") == "runtime-log" for each in list(server.requests))
        read = of_sidecars if is_kept else 2
        once("fail", states[0] == "succeeded" and read >= 1, fail)
        once("decide", states[1] == "failed" and read >= 2, decide)

    logs: dict[str, LogReader] = {}
    view = PlayedView(script)
    follow(reader, view)
    return view


def _with_sidecar(status: dict[str, object]) -> dict[str, object]:
    ended = {"name": "init", "state": {"terminated": {"exitCode": 0}}}
    log = {"name": "runtime-log", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
    return {**status, "initContainerStatuses": [ended, log]}


@pytest.mark.parametrize("is_all_gone", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_run_that_was_followed_is_read_as_it_was_when_its_pods_are_gone(
    server: ApiServer,
    state: Path,
    tmp_path: Path,
    is_all_gone: bool,  # noqa: FBT001 - a column of the table
    elsewhere: bool,  # noqa: FBT001 - a column of the table
) -> None:
    cluster = PlayedCluster(server)
    out = tmp_path / "out"
    if elsewhere:
        out.mkdir()
    assert _followed(cluster, out if elsewhere else None).said == []
    if is_all_gone:
        server.remove(paths.jobsets(NAMESPACE, NAME))
    reader = _reader(cluster)
    run = _run(reader)
    assert [(task.state, task.exit_code) for task in run.tasks] == [("succeeded", 0), ("failed", 3)]
    assert (run.outcome, run.failed_task) == ("failed", "worker/1")
    for index, task in enumerate(run.tasks):
        assert reader.log(task, "user").read(100) == f"output {index}\n".encode()
        assert reader.log(task, "runtime").read(100) == b"init\nruntime\n"
        assert reader.log(task, "user").tail(3) == f" {index}\n".encode()
        assert reader.variables(task).known == OWN
        assert task.note
    assert reader.exit_record(run.tasks[1])["message"] == "no data"
    for path in (state / "pai-runtime/clusters/lab" / NAME, *([out] if elsewhere else [])):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    reader.remove()
    assert not list((state / "pai-runtime/clusters/lab").iterdir())
    assert not out.exists()
    with pytest.raises(CannotRemove):
        _reader(cluster).remove()


def test_what_is_on_the_cluster_counts_more_than_what_is_kept(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    _followed(cluster)
    server.log(cluster.pod(status=terminated(7)), "app", b"there\n", ended=True)
    reader = _reader(cluster)
    run = _run(reader)
    assert [task.exit_code for task in run.tasks] == [7, 3]
    assert reader.log(run.tasks[0], "user").read(100) == b"output 0\nthere\n"


def test_another_run_of_the_same_name_has_nothing_of_what_is_kept(server: ApiServer) -> None:
    cluster = PlayedCluster(server)
    _followed(cluster)
    server.remove(paths.jobsets(NAMESPACE, NAME))
    again = PlayedCluster(server)
    again.end("Failed")
    assert [task.state for task in _run(_reader(again)).tasks] == ["stopped", "stopped"]


def test_a_run_that_was_never_followed_is_not_kept(server: ApiServer, state: Path) -> None:
    cluster = PlayedCluster(server)
    cluster.end("Failed")
    _run(_reader(cluster))
    assert not state.exists()
    server.remove(paths.jobsets(NAMESPACE, NAME))
    assert isinstance(_reader(cluster).run(), Unreadable)


def test_what_cannot_be_kept_is_said_once_and_the_run_is_followed(server: ApiServer, state: Path) -> None:
    state.write_text("no directory")
    assert len(_followed(PlayedCluster(server), is_kept=False).said) == 1


def test_what_is_old_is_removed_when_another_run_is_kept_but_no_directory_that_somebody_chose(
    server: ApiServer, state: Path, tmp_path: Path
) -> None:
    folder = state / "pai-runtime/clusters/lab"
    for name in ("old", "young"):
        (folder / name).mkdir(parents=True)
        (folder / name / "kept.json").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept.json").touch()
    (folder / "elsewhere").symlink_to(tmp_path / "mine")
    for name in ("old", "elsewhere"):
        os.utime(folder / name, (0, 0), follow_symlinks=False)
    _followed(PlayedCluster(server))
    assert {"young", NAME} <= {path.name for path in folder.iterdir()}
    assert not (folder / "old").exists()
    assert (tmp_path / "mine" / "kept.json").exists()


@pytest.mark.parametrize("name", ["../x", "..", "a/b", "", "UPPER"])
def test_no_name_of_a_run_leads_out_of_the_directory(server: ApiServer, name: str) -> None:
    reader = Reader(PlayedCluster(server).api, name, "../lab")
    assert reader._kept is None
