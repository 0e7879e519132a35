"""``pai-runtime report``: what became of a run, as a page, as JSON and as metrics."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pai_runtime.runs.state import Run, RunTask
from tests.cluster_commands import Command, cluster, shown
from tests.played_run import PlayedRun
from tests.small_cluster import SmallCluster
from tests.support import callback, cli, job, made_once, write_job

pytestmark = pytest.mark.process

__all__ = ["cluster", "shown"]

SECRET = "k3y-of-nobody-9f2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which a task is retried, one fails for a reason, and a callback fails."""
    return made_once(tmp_path_factory, "reported", _make) / "run"


def _make(folder: Path) -> None:
    document = job(
        secrets={"key": SECRET},
        extras={"gangAllocation": False},
        prerequisites=[
            {
                "name": "prepare",
                "type": "script",
                "plugin": "cmd",
                "callbacks": [
                    callback("taskStarts", "export PREPARED=yes", "echo the key is <% $secrets.key %>"),
                    callback("taskExits", 'test "$PAI_TASK_INDEX" = 0'),
                ],
            }
        ],
        worker={
            "instances": 2,
            "completion": {"minFailedInstances": 3},
            "prerequisites": ["prepare"],
            "commands": [
                "echo my key is <% $secrets.key %>",
                "seq 100 120",
                'test "$PAI_TASK_INDEX" = 0 || exit 0',
                "echo RuntimeError: CUDA out of memory; echo so it goes; exit 1",
            ],
        },
    )
    document["taskRoles"]["flaky"] = {
        **document["taskRoles"]["worker"],
        "instances": 1,
        "taskRetryCount": 1,
        "prerequisites": [],
        "commands": ["exit $((FC_TASK_ATTEMPT_ID == 0))"],
    }
    cli("run", write_job(folder, document), "--out", folder / "run")


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, Any]:
    ended = cli("report", run, "--json")
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def task_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    tasks = {f"{each['role']}/{each['index']}": each for each in document["tasks"]}
    task: dict[str, Any] = tasks[name]
    return task


def test_the_steps_of_a_task_are_told_in_order_with_how_they_ended(found: dict[str, Any]) -> None:
    spans = task_of(found, "worker/0")["spans"]
    assert [(each["kind"], each["what"], each["result"]) for each in spans if each["kind"] != "note"] == [
        ("waiting", "", ""),
        ("taskStarts", "prepare", "exit code 0"),
        ("command", "", "exit code 1"),
        ("analysis", "failure_analysis", ""),
        ("taskExits", "failure_analysis", "exit code 0"),
        ("taskExits", "prepare", "exit code 0"),
    ]
    assert all(each["start"] <= each["end"] for each in spans)
    assert [each["start"] for each in spans] == sorted(each["start"] for each in spans)


def test_each_attempt_is_told(found: dict[str, Any]) -> None:
    commands = [each for each in task_of(found, "flaky/0")["spans"] if each["kind"] == "command"]
    assert [(each["attempt"], each["result"]) for each in commands] == [
        (0, "exit code 1"),
        (1, "exit code 0"),
    ]


def test_a_failure_has_its_reason_and_the_matched_line_in_its_place(found: dict[str, Any]) -> None:
    (failure,) = found["failures"]
    assert (failure["task"], failure["phrase"]) == ("worker/0", "CudaOutOfMemory")
    assert failure["reason"]
    assert failure["solutions"]
    assert failure["matched"] == "RuntimeError: CUDA out of memory"
    assert failure["context"] == [*map(str, range(116, 121)), failure["matched"], "so it goes"]


def test_the_page_says_the_same_and_who_set_each_variable_and_no_secret(run: Path) -> None:
    ended = cli("report", run)
    assert (ended.returncode, Path(ended.stdout.strip()).name) == (0, "report.html")
    page = (run / "report.html").read_text("utf-8")
    assert SECRET not in page
    assert "my key is ******" in page
    for each in (
        "CudaOutOfMemory",
        "<mark>RuntimeError: CUDA out of memory</mark>",
        "<td>PREPARED</td>",
        "<td>prepare, taskStarts</td>",
        "Callbacks that failed",
    ):
        assert each in page, each
    assert (run / "report.html").stat().st_mode & 0o777 == 0o600


def test_metrics_are_as_prometheus_reads_them(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.prom"
    assert cli("report", run, "--prometheus", "--out", file).returncode == 0
    families = {family.name: family for family in text_string_to_metric_families(file.read_text("utf-8"))}
    assert all(family.documentation and family.type == "gauge" for family in families.values())
    codes = {
        (sample.labels["role"], sample.labels["index"]): sample.value
        for sample in families["pai_task_exit_code"].samples
    }
    assert codes == {("worker", "0"): 226, ("worker", "1"): 0, ("flaky", "0"): 0}
    states = {sample.labels["state"]: sample.value for sample in families["pai_run_state"].samples}
    assert [state for state, value in states.items() if value] == ["succeeded"]
    assert families["pai_task_cpu_seconds"].samples
    memory = families["pai_task_memory_requested_bytes"].samples
    assert {sample.value for sample in memory} == {100 * 2**20}
    assert file.stat().st_mode & 0o444 == 0o444
    # The linter of Prometheus: names of metrics have their unit, and only counters end in _total.
    assert all(re.fullmatch("pai_(run|task)_[a-z_]+", name) for name in families)
    assert cli("report", run, "--prometheus").stdout == file.read_text("utf-8")


def test_a_run_that_goes_on_is_reported_so_far(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=2)
    played.set("worker/0", "running")
    with played.engine():
        document = json.loads(cli("report", tmp_path, "--json").stdout)
    assert document["state"] == "running"
    (running,) = task_of(document, "worker/0")["spans"]
    (waiting,) = task_of(document, "worker/1")["spans"]
    assert (running["kind"], running["end"]) == ("running", None)
    assert (waiting["kind"], waiting["end"]) == ("waiting", None)


def test_a_run_on_a_cluster_is_reported_with_what_its_engine_tells(
    tmp_path: Path, cluster: SmallCluster, shown: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = RunTask("worker", 0, "failed", 3, 0, 1.0, 9.0)
    cluster.known["demo-x"] = replace(
        Run("demo", "small", "job.yaml", 1.0, 0, (failed,), user="ada"),
        ended=9.0,
        outcome="failed",
        failed_task="worker/0",
    )
    cluster.logs = {("worker/0", "user"): b"one\nlast words\n"}
    cluster.records = {"worker/0": {"exitCode": 3, "outcome": "failed", "message": "it broke"}}
    status, output, messages = shown("report", "demo-x", "--on", "lab")
    assert (status, output) == (0, "report.html\n"), messages
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "last words" in page
    assert "it broke" in page
    assert "<td>POD</td>" in page


def test_what_is_not_there_is_told(tmp_path: Path, run: Path) -> None:
    for words in ([tmp_path / "none"], [run, "--out", tmp_path / "none" / "x.html"]):
        ended = cli("report", *words)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("pai-runtime: ")


def test_five_hundred_tasks_with_long_logs_make_a_page_of_a_few_megabytes(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=500)
    for index in range(500):
        folder = played.task_folder(f"worker/{index}")
        (folder / "logs" / "user-all").mkdir(parents=True)
        (folder / "logs" / "user-all" / "current").write_text("a line of the log\n" * 10_000, "utf-8")
    played.all("succeeded", exitCode=0)
    played.set("worker/499", "failed", exitCode=1)
    played.end("failed", "worker/499")
    assert cli("report", tmp_path).returncode == 0
    page = (tmp_path / "report.html").read_bytes()
    assert len(page) < 8 << 20
    assert page.count(b'<details class="task"') == 500
    assert page.count(b"bytes are not shown") == 500
