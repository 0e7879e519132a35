"""``--on NAME``: the commands on a cluster, here one that a third party's engine knows."""

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.engine.messages import server_text
from pai_runtime.engines.interface import Option
from pai_runtime.runs.errors import CannotRun, MayBeLeft
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask, Unreadable
from tests.cluster_commands import NO_GPU, Command, cluster, shown
from tests.small_cluster import SmallCluster
from tests.support import job, write_job

__all__ = ["cluster", "shown"]

WAITS = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. No preemption victims found for it."


def task(index: int, state: str = "running", **fields: Any) -> RunTask:
    known: dict[str, Any] = {"state": state, **fields}
    if state == "waiting":
        known["started"] = None
    if state in ("succeeded", "failed", "stopped"):
        known["ended"] = 9.0
    return replace(RunTask("worker", index, "running", None, 0, 1.0, None), **known)


def run_of(*tasks: RunTask, **fields: Any) -> Run:
    return replace(Run("demo", "small", "job.yaml", 1.0, 0, tasks, user="ada"), **fields)


SUCCEEDED = run_of(task(0, "succeeded", exit_code=0), ended=9.0, outcome="succeeded")
FAILED = run_of(
    task(0, "failed", exit_code=3),
    task(1, "stopped"),
    ended=9.0,
    outcome="failed",
    failed_task="worker/0",
)


@pytest.mark.process
def test_a_job_is_submitted_and_followed_to_its_exit_status(
    tmp_path: Path, cluster: SmallCluster, shown: Command
) -> None:
    cluster.logs = {("worker/0", "user"): b"one\ntwo", ("worker/1", "user"): b"other\n"}
    cluster.to_come = [run_of(task(0), task(1)), FAILED]
    path = write_job(tmp_path, job(worker={"instances": 2}, parameters={"lr": 1}))
    status, output, messages = shown("run", path, "--on", "lab", "--set", "lr=2")
    assert status == 3
    assert output.splitlines() == ["worker/0 | one", "worker/1 | other", "worker/0 | two"]
    assert "pai-runtime logs test-bcdfg worker/0 --on lab" in messages
    ((request, _),) = cluster.submitted
    assert (request.user, dict(request.overrides.parameters)) == ("ada", {"lr": "2"})
    assert cluster.checked == [([("worker", 0), ("worker", 1)], True)]
    assert not (tmp_path / ".pai-runs").exists()


@pytest.mark.process
def test_the_output_of_a_single_task_comes_as_it_is(
    tmp_path: Path, cluster: SmallCluster, shown: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.logs = {("worker/0", "user"): b"50%\r100%\rdone"}
    cluster.to_come = [SUCCEEDED]
    del capfd
    assert shown("run", write_job(tmp_path, job()), "--on", "lab")[:2] == (0, "50%\r100%\rdone")


@pytest.mark.process
def test_a_detached_run_is_its_name_alone(tmp_path: Path, cluster: SmallCluster, shown: Command) -> None:
    status, output, messages = shown("run", write_job(tmp_path, job()), "--on", "lab", "--detach")
    assert (status, output) == (0, "test-bcdfg\n")
    assert "pai-runtime logs test-bcdfg -f --on lab" in messages
    assert "pai-runtime stop test-bcdfg --on lab" in messages
    assert "test-bcdfg" in cluster.known


@pytest.mark.process
def test_why_tasks_wait_is_said_once_for_all_of_which_it_is_the_same(
    tmp_path: Path, cluster: SmallCluster, shown: Command
) -> None:
    waiting = run_of(*(task(index, "waiting", note=WAITS) for index in range(2000)))
    first = replace(waiting.tasks[0], note="\x1b[31mred")
    changed = replace(waiting, tasks=(first, *waiting.tasks[1:]))
    cluster.to_come = [waiting, waiting, changed, changed, SUCCEEDED]
    _, _, messages = shown("run", write_job(tmp_path, job()), "--on", "lab")
    (line,) = [each for each in messages.splitlines() if WAITS in each]
    assert "1997 more" in line
    assert messages.count("\\x1b[31mred") == 1
    assert "\x1b" not in messages


@pytest.mark.process
def test_reasons_without_end_are_not_all_said(tmp_path: Path, cluster: SmallCluster, shown: Command) -> None:
    cluster.to_come = [
        run_of(*(task(index, "waiting", note=f"reason {time}.{index}") for index in range(50)))
        for time in range(50)
    ]
    _, _, messages = shown("run", write_job(tmp_path, job()), "--on", "lab")
    assert len(messages.splitlines()) < 1000


@pytest.mark.process
def test_a_run_that_goes_on_has_no_summary(tmp_path: Path, cluster: SmallCluster, shown: Command) -> None:
    cluster.to_come = [run_of(task(0))]
    status, _, messages = shown("run", write_job(tmp_path, job()), "--on", "lab")
    assert (status, len(messages.splitlines())) == (130, 3)


@pytest.mark.process
def test_a_run_that_cannot_be_followed_any_more_goes_on(
    tmp_path: Path, cluster: SmallCluster, shown: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = "tests.small_cluster.SmallRun.submit"
    cluster.to_come = [run_of(task(0))]

    def submitted(*_: object) -> RunReader:
        cluster.away = "the connection is lost"
        return cluster.open_run("test-bcdfg")

    monkeypatch.setattr(submit, submitted)
    status, _, messages = shown("run", write_job(tmp_path, job()), "--on", "lab")
    assert status == 2
    assert "pai-runtime ps test-bcdfg --on lab" in messages
    assert "nothing was started" not in messages


@pytest.mark.process
@pytest.mark.parametrize(("interrupted", "expected"), [(True, 130), (False, 2)])
@pytest.mark.usefixtures("cluster")
def test_what_may_be_left_of_a_submission_is_not_said_to_be_nothing(
    tmp_path: Path, shown: Command, monkeypatch: pytest.MonkeyPatch, *, interrupted: bool, expected: int
) -> None:
    def failing(*_: object) -> str:
        raise MayBeLeft("pai-runtime rm test-bcdfg --on lab", interrupted=interrupted)

    monkeypatch.setattr("tests.small_cluster.SmallRun.submit", failing)
    status, _, messages = shown("run", write_job(tmp_path, job()), "--on", "lab")
    assert status == expected
    assert "pai-runtime rm test-bcdfg --on lab" in messages
    assert "nothing was started" not in messages


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.usefixtures("cluster")
def test_a_signal_to_stop_lets_an_engine_undo_a_submission(
    tmp_path: Path, shown: Command, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    undone: list[str] = []

    def told_to_stop(*_: object) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            undone.append("by the engine")
            raise

    monkeypatch.setattr("tests.small_cluster.SmallRun.submit", told_to_stop)
    monkeypatch.setattr("tests.small_cluster.SmallRun.discard", lambda _: undone.append("by the program"))
    status, _, _ = shown("run", write_job(tmp_path, job()), "--on", "lab")
    assert (status, undone) == (130, ["by the engine", "by the program"])


@pytest.mark.process
def test_what_servers_say_hides_the_secrets_of_the_job_for_every_engine(
    tmp_path: Path, shown: Command, cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise CannotRun(server_text("the key s3cr3t-key-of-ada is wrong", 100))

    monkeypatch.setattr("tests.small_cluster.SmallRun.submit", refused)
    path = write_job(tmp_path, job(secrets={"key": "s3cr3t-key-of-ada"}))
    status, _, messages = shown("run", path, "--on", "lab")
    assert (status, cluster.submitted) == (2, [])
    assert "the key ****** is wrong" in messages


def test_old_runs_of_ones_own_that_are_over_are_pruned_and_no_others(
    cluster: SmallCluster, shown: Command
) -> None:
    now = time.time()
    cluster.known = {
        "old": SUCCEEDED,
        "young": replace(SUCCEEDED, ended=now),
        "others": replace(SUCCEEDED, user="kim"),
        "running": run_of(task(0)),
        "broken": Unreadable("it is none"),
    }
    before = cluster.known.keys() | set()
    status, output, _ = shown("prune", "--on", "lab", "--older-than", "1h", "--dry-run")
    assert (status, output.splitlines()[0]) == (0, "would remove old on lab")
    assert cluster.known.keys() == before
    status, output, _ = shown("prune", "--on", "lab", "--older-than", "1h", "--yes")
    assert (status, output.splitlines()) == (0, ["removed old on lab", "removed 1 run"])
    assert cluster.known.keys() == {"young", "others", "running", "broken"}


@pytest.mark.process
def test_where_a_run_is_kept_is_the_business_of_the_engine(
    tmp_path: Path, cluster: SmallCluster, shown: Command
) -> None:
    cluster.to_come = [SUCCEEDED]
    assert shown("run", write_job(tmp_path, job()), "--on", "lab", "--out", "out", "--timeout", "2m")[0] == 0
    ((request, _),) = cluster.submitted
    assert (request.out, request.timeout) == (Path("out"), 120)


@pytest.mark.parametrize(
    "options",
    [
        ["--isolation", "auto"],
        ["--storage", "data=/data"],
        ["--storage-config", "storages.yaml"],
        ["--env", "HOME"],
    ],
)
def test_options_of_this_machine_are_refused_all_at_once(
    tmp_path: Path, cluster: SmallCluster, shown: Command, options: Sequence[str]
) -> None:
    more = ["--env", "LANG", "--storage", "scratch=/scratch"]
    status, _, messages = shown("run", write_job(tmp_path, job()), "--on", "lab", *options, *more)
    assert status == 2
    assert all(f"{each} cannot" in messages for each in {options[0], "--env", "--storage"})
    assert cluster.submitted == []


@pytest.mark.process
def test_the_options_of_an_engine_are_its_own(tmp_path: Path, cluster: SmallCluster, shown: Command) -> None:
    cluster.options = [
        Option("queue", "the queue, 100% of it", "NAME"),
        Option("hold", "begin later"),
        Option("label", "a label; repeatable", "TEXT", repeatable=True),
        Option("storage", "storages that are there", choices=["fast", "slow"]),
    ]
    path = write_job(tmp_path, job())
    cluster.to_come = [SUCCEEDED]
    given = ["--queue", "night", "--hold", "--label", "a", "--label=b"]
    assert shown("run", path, "--on=lab", *given)[0] == 0
    ((request, _),) = cluster.submitted
    assert request.options == {"queue": "night", "hold": True, "label": ["a", "b"]}
    assert "--queue NAME" in shown("run", "--on", "lab", "--help")[1]
    assert "--queue" not in shown("run", "--help")[1]
    assert shown("run", path, "--queue", "night")[0] == 2
    assert shown("run", path, "--on", "lab", "--storage", "data=/data")[0] == 2
    assert len(cluster.submitted) == 1


@pytest.mark.parametrize(
    "args",
    [
        ["rm", "demo"],
        ["prune", "--older-than", "1h"],
        ["render", "job.yaml"],
        ["exec", "demo", "worker/0"],
        ["variables", "demo", "worker/0"],
        ["run", "job.yaml", "--detach"],
    ],
)
def test_what_an_engine_cannot_do_is_said_with_its_reason(
    tmp_path: Path, cluster: SmallCluster, shown: Command, args: list[str]
) -> None:
    write_job(tmp_path, job())
    cluster.known = {"demo": SUCCEEDED}
    cluster.cannot = {args[0]: "the farm keeps its runs", "--detach": "the farm keeps its runs"}
    status, output, messages = shown(args[0], "--on", "lab", *args[1:])
    assert (status, output, list(cluster.known), cluster.submitted) == (2, "", ["demo"], [])
    assert "cannot be used on lab: the farm keeps its runs" in messages


@pytest.mark.process
def test_a_dry_run_asks_the_cluster_and_submits_nothing(
    tmp_path: Path, cluster: SmallCluster, shown: Command
) -> None:
    assert shown("run", write_job(tmp_path, job()), "--on", "lab", "--dry-run")[0] == 0
    assert (cluster.checked, cluster.submitted) == ([([("worker", 0)], True)], [])


@pytest.mark.process
def test_what_the_cluster_cannot_give_is_a_problem_of_the_job(
    tmp_path: Path, cluster: SmallCluster, shown: Command
) -> None:
    path = write_job(tmp_path, NO_GPU)
    status, output, _ = shown("validate", path, "--on", "lab", "--json")
    (problem,) = json.loads(output)["problems"]
    assert (status, problem["code"]) == (1, "too-many-gpus")
    assert shown("validate", path)[0] == 0
    status, _, messages = shown("run", path, "--on", "lab")
    assert (status, "nothing was started" in messages) == (2, True)
    assert cluster.submitted == []


@pytest.mark.process
def test_a_plugin_that_is_not_installed_here_may_be_on_the_cluster(
    tmp_path: Path, cluster: SmallCluster, shown: Command
) -> None:
    uses = {"com.microsoft.pai.runtimeplugin": [{"plugin": "com.example.of.the.cluster", "parameters": {}}]}
    path = write_job(tmp_path, job(extras=uses))
    cluster.to_come = [SUCCEEDED]
    status, _, messages = shown("run", path, "--on", "lab")
    assert (status, "warning" in messages) == (0, True)


@pytest.mark.parametrize("command", ["ps", "logs", "stop", "variables", "exec"])
def test_a_misspelt_run_is_answered_with_the_one_that_was_meant(
    cluster: SmallCluster, shown: Command, command: str
) -> None:
    cluster.known = {"train-1": SUCCEEDED, "other-1": SUCCEEDED}
    status, _, messages = shown(command, "trian-1", "--on", "lab")
    assert (status, "did you mean train-1?" in messages) == (2, True)


@pytest.mark.process
def test_variables_are_given_to_every_engine(tmp_path: Path, cluster: SmallCluster, shown: Command) -> None:
    cluster.to_come = [SUCCEEDED]
    given = ["--env", "MODE=fast", "--env", "LANG=C"]
    assert shown("run", write_job(tmp_path, job()), "--on", "lab", *given)[0] == 0
    ((request, _),) = cluster.submitted
    assert request.overrides.environment == {"MODE": "fast", "LANG": "C"}


def test_latest_is_the_newest_run_of_this_user(cluster: SmallCluster, shown: Command) -> None:
    cluster.known = {
        "broken": Unreadable("odd"),
        "hers": run_of(task(0), user="bob"),
        "newer": run_of(task(0)),
        "older": run_of(task(0)),
    }
    assert shown("stop", "latest", "--on", "lab")[0] == 0
    assert cluster.cancelled == ["newer"]
    cluster.known = {"hers": run_of(task(0), user="bob")}
    status, _, messages = shown("stop", "latest", "--on", "lab")
    assert (status, "'ada'" in messages) == (2, True)


def test_ps_shows_nodes_and_why_tasks_wait(cluster: SmallCluster, shown: Command) -> None:
    cluster.known = {
        "demo-bcdfg": run_of(
            task(0, node="node-7"), task(1, "waiting", note=WAITS), task(2, "waiting", note=WAITS)
        )
    }
    cluster.logs = {("worker/0", "user"): b"loss 0.1\n"}
    status, output, _ = shown("ps", "demo-bcdfg", "--on", "lab")
    titles, *rows = [line.split() for line in output.splitlines() if line.startswith(("TASK", "worker"))]
    assert status == 0
    assert titles[:4] == ["TASK", "STATE", "NODE", "PHASE"]
    assert (rows[0][:4], rows[0][-2:]) == (["worker/0", "running", "node-7", "command"], ["loss", "0.1"])
    assert f"worker/1, worker/2: {WAITS}" in output.splitlines()
    _, output, _ = shown("ps", "demo-bcdfg", "--on", "lab", "--json")
    document = json.loads(output)
    assert (document["run"], document["user"]) == ("demo-bcdfg", "ada")
    assert [(each["node"], each["note"]) for each in document["tasks"][:2]] == [("node-7", ""), ("", WAITS)]


def test_ps_lists_the_runs_of_all_users_those_that_run_first(cluster: SmallCluster, shown: Command) -> None:
    cluster.known = {"new": SUCCEEDED, "odd": Unreadable("no roles"), "old": run_of(task(0), user="bob")}
    _, output, _ = shown("ps", "--on", "lab")
    titles, *rows = [line.split() for line in output.splitlines()]
    assert titles[:4] == ["RUN", "USER", "JOB", "STATE"]
    assert [row[:2] for row in rows] == [["old", "bob"], ["new", "ada"], ["odd", "unreadable"]]
    _, output, _ = shown("ps", "--on", "lab", "--json")
    assert [each["run"] for each in json.loads(output)] == ["old", "new", "odd"]


@pytest.mark.parametrize(
    ("args", "output"),
    [
        (["logs", "demo-bcdfg", "worker/1"], "other\n"),
        (["logs", "demo-bcdfg"], "worker/0 | one\nworker/1 | other\n"),
        (["logs", "demo-bcdfg", "worker/0", "-f"], "one\n"),
        (["logs", "demo-bcdfg", "worker/0", "--runtime"], "set up\n"),
        (["variables", "demo-bcdfg", "worker/1"], "platform  POD=worker/1\n"),
    ],
)
def test_logs_and_variables_are_those_of_the_cluster(
    cluster: SmallCluster, shown: Command, args: list[str], output: str
) -> None:
    cluster.known = {"demo-bcdfg": FAILED}
    cluster.logs = {
        ("worker/0", "user"): b"one\n",
        ("worker/1", "user"): b"other\n",
        ("worker/0", "runtime"): b"set up\n",
    }
    assert shown(*args, "--on", "lab") == (0, output, "")


def test_the_variables_that_are_known_are_shown_and_what_is_not_is_said(
    cluster: SmallCluster, shown: Command
) -> None:
    cluster.known = {"demo-bcdfg": FAILED}
    cluster.missing = "those of \x1b its peers"
    status, output, messages = shown("variables", "demo-bcdfg", "worker/1", "--on", "lab")
    assert (status, output) == (0, "platform  POD=worker/1\n")
    assert messages == "pai-runtime: those of \\x1b its peers\n"


@pytest.mark.parametrize(
    "args",
    [
        ["--on", "lab", "demo-bcdfg", "worker/0", "--", "ls"],
        ["demo-bcdfg", "worker/0", "--on", "lab", "--", "ls"],
        ["demo-bcdfg", "--on", "lab", "worker/0", "--", "ls"],
        ["demo-bcdfg", "worker/0", "--on=lab", "ls"],
        ["demo-bcdfg", "worker/0", "ls", "--on", "lab"],
        ["worker/0", "--on", "lab", "--", "ls"],
    ],
)
def test_a_program_in_a_task_is_the_business_of_the_engine(
    cluster: SmallCluster, shown: Command, args: list[str]
) -> None:
    cluster.known = {"demo-bcdfg": run_of(task(0))}
    status, _, messages = shown("exec", *args)
    assert (status, "enter worker/0 yourself: ['ls']" in messages) == (2, True)


@pytest.mark.parametrize(
    ("args", "program"),
    [
        (["demo-bcdfg", "worker/0"], []),
        (["demo-bcdfg", "worker/0", "--"], []),
        (["demo-bcdfg", "worker/0", "ls", "-l", "--on", "x"], ["ls", "-l", "--on", "x"]),
        (["demo-bcdfg", "worker/0", "--", "ls", "--on", "x"], ["ls", "--on", "x"]),
        (["demo-bcdfg", "worker/0", "--", "sh", "-c", "--", "--help"], ["sh", "-c", "--", "--help"]),
        (["demo-bcdfg", "--", "worker/0"], ["worker/0"]),
    ],
)
def test_a_program_in_a_task_has_its_own_options(
    cluster: SmallCluster, shown: Command, args: list[str], program: list[str]
) -> None:
    cluster.known = {"demo-bcdfg": run_of(task(0))}
    status, _, messages = shown("exec", "--on", "lab", *args)
    assert (status, f"enter worker/0 yourself: {program}" in messages) == (2, True)


def test_a_run_that_failed_is_analysed(cluster: SmallCluster, shown: Command) -> None:
    cluster.known = {"demo-bcdfg": FAILED}
    cluster.records = {"worker/0": {"outcome": "failed", "originUserExitCode": 1, "message": "it broke"}}
    cluster.logs = {("worker/0", "user"): b"RuntimeError: CUDA out of memory.\n"}
    status, output, _ = shown("analyze", "demo-bcdfg", "--on", "lab")
    assert status == 0
    assert "worker/0: it broke" in output
    assert shown("analyze", "demo-bcdfg", "worker/9", "--on", "lab")[0] == 2


def test_runs_that_are_over_are_removed_and_others_stay(cluster: SmallCluster, shown: Command) -> None:
    cluster.known = {"one": SUCCEEDED, "two": run_of(task(0)), "three": FAILED}
    status, output, messages = shown("rm", "one", "two", "three", "none", "--on", "lab")
    assert (status, list(cluster.known)) == (2, ["two"])
    assert output == "removed one on lab\nremoved three on lab\n"
    assert "cannot remove two" in messages
    assert "cannot remove none" in messages


COMMANDS = [
    ["ps"],
    ["ps", "demo"],
    ["logs", "demo"],
    ["stop", "demo"],
    ["stop", "latest"],
    ["variables", "demo", "worker/0"],
    ["exec", "demo", "worker/0"],
    ["rm", "demo"],
    ["rm", "latest"],
    ["analyze", "demo"],
]


@pytest.mark.parametrize("args", COMMANDS)
def test_a_cluster_that_cannot_be_asked_is_said_in_its_words(
    cluster: SmallCluster, shown: Command, args: list[str]
) -> None:
    cluster.away = "lab: the token has \x1b[31mexpired"
    status, output, messages = shown(args[0], "--on", "lab", *args[1:])
    assert (status, output) == (2, "")
    assert "the token has \\x1b[31mexpired" in messages
    assert "Traceback" not in messages


@pytest.mark.parametrize("args", [each for each in COMMANDS if "demo" in each and each != ["rm", "demo"]])
def test_a_run_that_is_not_there_is_said_with_what_lists_them(shown: Command, args: list[str]) -> None:
    status, _, messages = shown(args[0], "--on", "lab", *args[1:])
    assert status == 2
    assert "pai-runtime ps --on lab" in messages


@pytest.mark.parametrize(
    "args", [*COMMANDS, ["run", "job.yaml"], ["render", "job.yaml"], ["validate", "job.yaml"]]
)
def test_a_profile_that_is_misspelt_is_said_with_the_one_that_was_meant(
    tmp_path: Path, shown: Command, args: list[str]
) -> None:
    write_job(tmp_path, job())
    status, output, messages = shown(args[0], "--on", "lba", *args[1:])
    assert (status, output) == (2, "")
    assert "'lba'" in messages
    assert "did you mean lab?" in messages


@pytest.mark.process
def test_a_run_in_a_directory_is_named_as_before(tmp_path: Path, shown: Command) -> None:
    assert shown("run", write_job(tmp_path, job(name="here")))[0] == 0
    _, output, _ = shown("ps", "--json")
    (document,) = json.loads(output)
    assert document["folder"] == ".pai-runs/here-1"
    assert "run" not in document


_KEY = "sesame-open-4711"


@pytest.mark.process
@pytest.mark.parametrize("command", ["validate", "run", "validate --on", "run --on", "render --on"])
def test_no_command_takes_code_that_contains_a_secret(command: str, tmp_path: Path, shown: Command) -> None:
    (tmp_path / "values.yaml").write_text(f"pin: {_KEY}")
    path = write_job(tmp_path, job(extras={"code": "."}))
    name, *on = command.split()
    args: list[str | Path] = [
        name,
        path,
        "--secrets",
        tmp_path / "values.yaml",
        *on,
        *(["lab"] if on else []),
    ]
    assert "values.yaml" not in shown(*args, *(["--dry-run"] if name == "run" else []))[2]
    (tmp_path / "settings.py").write_text(_KEY)
    status, output, messages = shown(*args)
    assert status in (1, 2)
    assert f"{tmp_path}/settings.py" in messages
    assert _KEY not in output + messages
