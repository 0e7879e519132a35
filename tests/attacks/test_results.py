"""The result of a task is that of its command, whatever a callback, a plugin or a kill does (promise 4)."""

import json
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_task.launch import LaunchOptions
from pai_task.plan import PlannedService, Service, Step
from tests.plugin_factory import Site, uses
from tests.support import NOT_ANALYSED, callback, cli, exit_record, job, write_job
from tests.task_harness import plan, run_task, shell

pytestmark = pytest.mark.process

FAILED = {
    "a clone that fails": (["git clone /no/such/repo code", "cd code", "echo training"], 128),
    "any command": (["false", "echo training"], 1),
    "one command of a text": (["false\necho training"], 1),
    "the first part of a pipeline": (["(exit 3) | cat", "echo training"], 3),
    "in a function": (["f() { false; echo training; }", "f"], 1),
    "in a list item before": (["cd /no/such/folder", "rm -rf *; echo training"], 1),
}


def one_role_each(*each: list[str]) -> dict[str, Any]:
    """A job with the roles w0, w1, …, which run these commands, and end whatever becomes of the others."""
    document = job(extras=NOT_ANALYSED)
    worker = {**document["taskRoles"].pop("worker"), "completion": {"minFailedInstances": -1}}
    document["taskRoles"] = {
        f"w{number}": {**worker, "commands": commands} for number, commands in enumerate(each)
    }
    return document


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_a_command_that_fails_ends_the_script_and_fails_the_task(tmp_path: Path, mode: str) -> None:
    path = write_job(tmp_path, one_role_each(*(commands for commands, _ in FAILED.values())))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", mode)
    assert "training" not in ended.stdout
    for number, (_, code) in enumerate(FAILED.values()):
        record = exit_record(tmp_path / f"run/w{number}/0")
        assert (record["outcome"], record["originUserExitCode"]) == ("failed", code)


_ENDS = {
    "success": ("true", "ok", 0),
    "failure": ("exit 7", "failed", 7),
    "a signal": ("kill -KILL $$", "failed", 137),
    "cancelled": ("kill -TERM $PPID; sleep 1000", "cancelled", 143),
    "much output": ("seq 200000; exit 7", "failed", 7),
    "masked values": ('echo secret-1 >"$PAI_MASK"; echo secret-1; exit 7', "failed", 7),
    "a folder in the place of the record": ("mkdir ../exit.yaml ../.exit.yaml; exit 7", "failed", 7),
}


@pytest.mark.parametrize(("command", "outcome", "code"), _ENDS.values(), ids=_ENDS)
def test_a_task_that_takes_the_runtimes_files_away_ends_as_it_would_with_them(
    tmp_path: Path, command: str, outcome: str, code: int
) -> None:
    steps = [shell("taskStarts", 0, "echo starts"), shell("taskExits", 0, 'echo "over $PAI_TASK_EXIT_CODE"')]
    task = run_task(plan(tmp_path, command, steps), module="tests.supervisor_without_files")
    assert (task.process.returncode, b"Traceback" in task.stderr) == (code, False)
    assert (task.record["outcome"], task.record["exitCode"]) == (outcome, code)
    assert [line for line in task.runtime_log if line.startswith("over")] == [f"over {code}"]


def test_what_needs_a_runtime_that_is_gone_is_said_and_changes_no_result(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    options = LaunchOptions(hook_argv=(str(python), "-c", ""))
    steps = [
        Step("analysis", 0, "fail", hook="pai_analyze"),
        Step("taskExits", 0, "fail", hook="pai_task_exits"),
        shell("taskExits", 1, "echo over"),
    ]
    service = PlannedService(1, Service("web", "sleep 1000", linger=0.1))
    whole = replace(
        plan(tmp_path / "task", f"rm {shlex.quote(str(python))}; exit 7", steps),
        services=(service,),
        hold=0.1,
    )
    task = run_task(whole, options, module="tests.supervisor_without_files")
    assert task.process.returncode == 7
    assert (task.record["outcome"], task.record["callbackFailureCount"]) == ("failed", 1)
    assert sum("cannot start" in line or "could not analyse" in line for line in task.runtime_log) == 2
    assert "over" in task.runtime_log


@pytest.mark.needs("dash")
def test_without_bash_the_script_stops_at_a_failing_command_too(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("dash", "cat"):
        (programs / ("sh" if name == "dash" else name)).symlink_to(f"/bin/{name}")
    run = run_task(plan(tmp_path / "task", "(exit 4)\necho training"), env={"PATH": str(programs)})
    assert (run.process.returncode, run.stdout) == (4, b"")


def test_nothing_of_a_deployment_hides_a_failure(tmp_path: Path) -> None:
    def deployed(**commands: Any) -> dict[str, Any]:
        deployments = [{"name": "prod", "taskRoles": {"worker": commands}}]
        return job(worker={"commands": ["exit 5"]}, deployments=deployments, defaults={"deployment": "prod"})

    before = write_job(tmp_path, deployed(preCommands=["(exit 6)"]), "before.yaml")
    after = write_job(tmp_path, deployed(postCommands=["echo after"]), "after.yaml")
    assert cli("run", before, "--out", tmp_path / "one").returncode == 6
    ended = cli("run", after, "--out", tmp_path / "two")
    assert (ended.returncode, ended.stdout) == (5, "")


def test_a_pipeline_whose_first_part_fails_fails_a_callback(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "echo training", [shell("taskStarts", 0, "(exit 3) | cat")]))
    assert (run.record["outcome"], run.stdout) == ("setup-failed", b"")


KILL = "kill -KILL $PPID; sleep 1000"
"""In a task that is not isolated: inside of a namespace the supervisor cannot be killed."""


@pytest.mark.parametrize("event", ["taskSucceeds", "taskExits"])
def test_a_command_that_succeeded_did_so_although_the_supervisor_is_killed_after_it(
    tmp_path: Path, event: str
) -> None:
    tidy = {"name": "tidy", "callbacks": [callback(event, KILL)]}
    document = job(prerequisites=[tidy], worker={"prerequisites": ["tidy"]})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--isolation", "none")
    assert ended.returncode == 0, ended.stderr
    record = exit_record(tmp_path / "run/worker/0")
    assert (record["outcome"], record["exitCode"], record["phase"]) == ("ok", 0, "command")
    assert record["message"]  # that callbacks are missing


@pytest.mark.parametrize("event", ["taskFails", "taskExits"])
def test_a_command_that_failed_keeps_its_code_although_the_supervisor_is_killed_after_it(
    tmp_path: Path, event: str
) -> None:
    tidy = {"name": "tidy", "callbacks": [callback(event, KILL)]}
    document = job(prerequisites=[tidy], worker={"prerequisites": ["tidy"], "commands": ["exit 7"]})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--isolation", "none")
    record = exit_record(tmp_path / "run/worker/0")
    assert (ended.returncode, record["originUserExitCode"], record["phase"]) == (7, 7, "command")


def test_so_does_one_whose_supervisor_is_killed_during_the_analysis(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add(
        "org.example.kills",
        "import os, signal, time\n@hookimpl\ndef pai_analyze(use, task, failure):\n"
        "    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(1000)\n",
        hooks=["pai_analyze"],
    )
    document = job(**uses("org.example.kills"))
    document["taskRoles"]["worker"]["commands"] = ["exit 7"]
    ended = site.cli("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--isolation", "none")
    record = exit_record(tmp_path / "run/worker/0")
    assert (ended.returncode, record["outcome"], record["phase"]) == (7, "failed", "command")


def test_a_supervisor_that_is_killed_in_the_command_is_not_said_to_have_died_before_it(
    tmp_path: Path,
) -> None:
    path = write_job(tmp_path, job(worker={"commands": [KILL]}))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "none")
    record = exit_record(tmp_path / "run/worker/0")
    assert (ended.returncode, record["phase"]) == (128 + signal.SIGKILL, "command")


FORGED = [
    "echo 'outcome: ok' > ../exit.yaml; echo 'exitCode: 0' >> ../exit.yaml",
    "echo '{}' > ../../../run.json",
    'echo \'{"phase": "ended"}\' > ../state.json',
]


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_a_task_cannot_write_its_own_result(tmp_path: Path, mode: str) -> None:
    commands = [[f"( {forgery} ) 2>/dev/null || :", "exit 9"] for forgery in FORGED]
    cli("run", write_job(tmp_path, one_role_each(*commands)), "--out", tmp_path / "run", "--isolation", mode)
    for number in range(len(FORGED)):
        record = exit_record(tmp_path / f"run/w{number}/0")
        assert (record["originUserExitCode"], record["outcome"]) == (9, "failed")
    listed = json.loads(cli("ps", tmp_path / "run", "--json").stdout)
    assert [task["state"] for task in listed["tasks"]] == ["failed"] * len(FORGED)


def test_a_hook_that_leaves_the_program_does_not_end_the_run_as_a_success(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add(
        "org.example.leaves", "import os\n@hookimpl\ndef pai_prerequisite(use, task):\n    os._exit(0)\n"
    )
    path = write_job(tmp_path, job(**uses("org.example.leaves")))
    ended = site.cli("run", path, "--out", tmp_path / "run")
    assert ended.returncode == 2
    assert "org.example.leaves" in ended.stderr


def test_a_record_that_a_task_has_forged_before_it_killed_its_supervisor_does_not_harm_the_engine(
    tmp_path: Path,
) -> None:
    forge = "printf 'exitCode: 7\\nx: 1e999\\n' > ../exit.yaml; kill -KILL $PPID; sleep 1000"
    path = write_job(tmp_path, one_role_each([forge]))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "none")
    assert "Traceback" not in ended.stderr
    run = json.loads((tmp_path / "run/run.json").read_text())
    states = {task["role"]: task["state"] for task in run["tasks"]}
    assert states == {"w0": "failed"}


@pytest.mark.parametrize("value", [r"platform\0some-value", r"\0\0\0\0", r"\0platform\0"])
def test_no_value_that_is_to_be_hidden_keeps_exit_callbacks_from_running(tmp_path: Path, value: str) -> None:
    steps = [shell("taskStarts", 0, f"printf '{value}\\n' > \"$PAI_MASK\"; export SET=1")]
    steps += [shell("taskExits", number, f"export SET={number}; echo {number} >> ran") for number in (0, 1)]
    run = run_task(plan(tmp_path, "true", steps, {"A": "some-value"}))
    assert (run.process.returncode, (tmp_path / "work/ran").read_text()) == (0, "1\n0\n")
    variables = json.loads((tmp_path / "variables.json").read_text())
    assert variables["A"] == {"source": "platform", "value": "some-value"}
