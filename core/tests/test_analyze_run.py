"""`pai-runtime analyze RUN`: the failed tasks of a run, explained by their logs and their exit records."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pai_runtime import cli as command_line
from pai_runtime.host.policies_in_force import POLICY_VARIABLE
from tests.played_run import PlayedRun

OUT_OF_MEMORY = b"epoch 1\nRuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n"
FAILED = {"outcome": "failed", "phase": "command", "exitCode": 1, "originUserExitCode": 1}


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedRun:
    """A run of three tasks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(POLICY_VARIABLE, raising=False)
    return PlayedRun(tmp_path / ".pai-runs" / "train-1", worker=3)


@pytest.fixture
def analyze(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["pai-runtime", "analyze", *args])
        return command_line.main(), *capsys.readouterr()

    return run


def fail(played: PlayedRun, task: str, log: bytes, **record: Any) -> None:
    """A task fails with these words and such a record."""
    if log:
        played.output(task, log)
    lines = {**FAILED, "message": f"the end of {task}", **record}.items()
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in lines)
    (played.task_folder(task) / "exit.yaml").write_text(text)
    played.set(task, "failed", exitCode=1)


def test_each_failed_task_is_explained_and_first_the_one_that_failed_the_job(
    played: PlayedRun, analyze: Any
) -> None:
    fail(played, "worker/0", b"IndexError: list index out of range\n")
    fail(played, "worker/2", OUT_OF_MEMORY)
    played.end("failed", "worker/2")
    for name in ([], ["latest"], ["train-1"], [".pai-runs/train-1"], ["latest", "worker"]):
        status, out, err = analyze(*name)
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[:2] == [
            "worker/2: the end of worker/2",
            "226 CudaOutOfMemory: a retry fails again unless something is changed",
        ]
        assert any(line.startswith(">      2 | RuntimeError: CUDA out of memory") for line in lines)
        assert lines.index("worker/0: the end of worker/0") > 2
        assert "worker/1" not in out
    assert analyze("train-1", "worker/0")[1].splitlines()[1].startswith("233 PythonIndexError")


def test_as_json_it_is_a_list_of_tasks(played: PlayedRun, analyze: Any) -> None:
    fail(played, "worker/0", OUT_OF_MEMORY)
    fail(played, "worker/1", b"who knows\n")
    status, out, _ = analyze("latest", "--json")
    explained, not_explained = json.loads(out)
    assert (status, explained["task"], explained["explanation"]["code"]) == (1, "worker/0", 226)
    assert explained["explanation"]["matches"][0]["line"] == 2
    assert not_explained == {"task": "worker/1", "explanation": None}


def test_what_the_record_knows_and_the_logs_do_not_is_told_by_the_record(
    played: PlayedRun, analyze: Any
) -> None:
    known = {"exitCode": 236, "phrase": "HostOutOfMemory", "behavior": "PERMANENT", "reason": "Full."}
    fail(played, "worker/0", b"epoch 1\n", **known, solution=["Use less."], trigger="rule X: oomKilled True")
    status, out, _ = analyze("latest")
    assert status == 0
    assert out.splitlines()[1:6] == [
        "236 HostOutOfMemory: a retry fails again unless something is changed",
        "",
        "Why: Full.",
        "What to do:",
        "  - Use less.",
    ]


def test_a_rule_of_the_job_itself_stays_the_explanation(played: PlayedRun, analyze: Any) -> None:
    fail(played, "worker/0", OUT_OF_MEMORY, exitCode=77, phrase="OfMine")
    assert analyze("latest")[1].splitlines()[1].startswith("77 OfMine")


def test_rules_that_are_given_are_tried_on_what_was_not_explained(
    tmp_path: Path, played: PlayedRun, analyze: Any
) -> None:
    fail(played, "worker/0", b"simulator: no licence left\n")
    rule = {"code": 10, "phrase": "NoLicence", "patterns": [{"userLogRegex": "no licence", "exitCode": 1}]}
    (tmp_path / "spec.yaml").write_text(json.dumps([rule]))
    assert analyze("latest")[0] == 1
    status, out, _ = analyze("latest", "--spec", "spec.yaml")
    assert (status, out.splitlines()[1][:12]) == (0, "10 NoLicence")


def test_advice_that_was_given_only_when_it_failed_is_given_again(played: PlayedRun, analyze: Any) -> None:
    advice = ["The task began with /usr/bin/python3", "Install the pack…"]
    fail(
        played,
        "worker/0",
        b"ModuleNotFoundError: No module named 'q'\n",
        phrase="ModuleNotFound",
        solution=advice,
    )
    advised = [line for line in analyze("latest")[1].splitlines() if line.startswith("  - ")]
    assert advised[0] == f"  - {advice[0]}"
    assert len(advised) > 1
    assert not any(advice[1] in line for line in advised)


def test_a_failed_setup_is_explained_by_the_runtimes_log(played: PlayedRun, analyze: Any) -> None:
    played.output(
        "worker/0", b"[x] [openpai-runtime] cmd: line 1: wgett: command not found\n", log="runtime.log"
    )
    fail(played, "worker/0", b"", outcome="setup-failed", phase="taskStarts", originUserExitCode=None)
    status, out, _ = analyze("latest")
    assert (status, out.splitlines()[1][:19]) == (0, "220 CommandNotFound")
    assert "logs/runtime.log:1:" in out


def test_a_task_that_is_held_after_its_failure_has_failed(played: PlayedRun, analyze: Any) -> None:
    fail(played, "worker/0", OUT_OF_MEMORY)
    played.set("worker/0", "running", exitCode=None)
    assert analyze("latest")[0] == 0


def test_where_nothing_has_failed_that_is_said(played: PlayedRun, analyze: Any) -> None:
    played.all("succeeded", exitCode=0)
    assert analyze("latest") == (1, "latest has not failed.\n", "")
    assert analyze("latest", "worker/1") == (1, "latest worker/1 has not failed.\n", "")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["latest", "worker/7"], "no task 'worker/7'"),
        (["latest", "wrker"], "no task 'wrker'"),
        (["latest", "worker/0", "worker/1"], "expected logs, or a run and one task"),
        (["latest", "--exit-code", "3"], "--exit-code and --signal are for logs"),
        (["latest", "--signal", "9"], "--exit-code and --signal are for logs"),
        (["tran-1"], "there is no log 'tran-1'"),
        ([".pai-runs"], "it has no run.json"),
        (["x" * 300], "there is no log 'xxx"),
        (["x" * 300 + "/log"], "there is no log 'xxx"),
        (["no/such.log"], "there is no log 'no/such.log'"),
    ],
)
def test_what_cannot_be_analysed_is_told(args: list[str], told: str, played: PlayedRun, analyze: Any) -> None:
    fail(played, "worker/0", OUT_OF_MEMORY)
    status, out, err = analyze(*args)
    assert (status, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "record",
    [
        {"phrase": [1], "exitCode": "x", "signal": {}, "failedUse": 3, "outcome": 5, "phase": []},
        {"phrase": "\x1b[2J", "reason": {}, "solution": 5, "behavior": [], "becauseOfPeer": "yes"},
        {"originUserExitCode": [], "failedUse": {"plugin": 5}, "message": ["\x1b[2J"], "trigger": {}},
    ],
)
def test_a_record_with_anything_in_it_is_no_reason_to_fail(
    record: dict[str, Any], played: PlayedRun, analyze: Any
) -> None:
    fail(played, "worker/0", b"who knows\n", **record)
    status, out, err = analyze("latest")
    assert status in (0, 1)
    assert (err, "\x1b" in out) == ("", False)


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_a_task_has_put_in_the_place_of_its_log_is_not_read(
    kind: str, tmp_path: Path, played: PlayedRun, analyze: Any
) -> None:
    fail(played, "worker/0", b"x\n")
    log = played.task_folder("worker/0") / "logs/user-all/current"
    log.unlink()
    (tmp_path / "other").write_bytes(OUT_OF_MEMORY)
    {"fifo": os.mkfifo, "link": lambda path: path.symlink_to(tmp_path / "other"), "folder": os.mkdir}[kind](
        log
    )
    status, out, err = analyze("latest")
    assert status in (1, 2)
    assert "226" not in out
    assert "Traceback" not in err
