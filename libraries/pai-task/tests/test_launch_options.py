"""How a supervisor is told how to run its task."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pai_task.exit_codes import SETUP_FAILED
from pai_task.interpreter import python_argv
from pai_task.launch import DEFAULT, LaunchOptions, Rotation
from pai_task.plan import Step
from tests.task_harness import plan, run_task, shell

_ALL = LaunchOptions(
    timeout=1.5,
    timeout_of="the allocation",
    grace=2,
    exit_budget=3,
    prefix="worker/0 | ",
    rotation=Rotation(1024, 3, tai64n=True),
    termination_log="/tmp/log",
    folder_fd=10,
    sessions_fd=5,
    secrets_fd=11,
    lifeline_fd=13,
    pid=12,
    python="/usr/bin/python3",
    hook_argv=("python3", "-m", "hooks"),
    certificates="/etc/ssl/cert.pem",
    supervised=True,
    variables={"FC_TASK_ATTEMPT_INDEX": "1"},
    phases="rest",
    logs="/usr/local/pai/logs/uid",
    work="/app",
    tools="/usr/local/pai/bundle/applets",
    served_at="127.0.0.1",
    shares_memory=True,
    umask=0o027,
)


def test_options_come_back_as_they_were() -> None:
    assert not [name for name, value in vars(_ALL).items() if value == vars(DEFAULT)[name]]
    assert LaunchOptions.from_argument(_ALL.to_argument()) == _ALL
    assert (DEFAULT.to_argument(), LaunchOptions.from_argument("{}")) == ("{}", DEFAULT)


@pytest.mark.parametrize(
    "document",
    [
        [],
        None,
        {"grase": 1},
        {"grace": "1"},
        {"grace": True},
        {"grace": None},
        {"rotation": {"sise": 1}},
        {"rotation": 5},
        {"phases": "most"},
        {"hookArgv": "python"},
        {"pid": 1.5},
    ],
)
def test_what_is_no_option_is_refused(document: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - there is no other
        LaunchOptions.from_argument(json.dumps(document))


@pytest.mark.process
@pytest.mark.parametrize("args", [[], ["/", "{", "more"], ["/", "{"], ["/", '{"grase": 1}']])
def test_a_command_line_that_is_wrong_is_a_usage_error(args: list[str]) -> None:
    argv = python_argv("pai_task.supervisor.__main__", *args)
    ended = subprocess.run(argv, capture_output=True, check=False)
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr


@pytest.mark.process
def test_it_runs_as_a_module_without_any_option(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps(plan(tmp_path, "echo done").to_json()))
    argv = [sys.executable, "-m", "pai_task.supervisor", str(tmp_path)]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"done\n"


@pytest.mark.process
def test_variables_of_this_attempt_take_precedence_over_those_of_the_plan(tmp_path: Path) -> None:
    given = plan(tmp_path, 'echo "$A $B"', environment={"A": "plan", "B": "plan"})
    run = run_task(given, LaunchOptions(variables={"A": "attempt"}))
    assert run.stdout == b"attempt plan\n"


@pytest.mark.process
def test_a_file_that_we_are_started_with_does_not_reach_the_task(tmp_path: Path) -> None:
    run = run_task(
        plan(tmp_path, "ls /proc/self/fd", [shell("taskStarts", 0, "ls /proc/$$/fd")]),
        wrap=["sh", "-c", 'exec 7< /etc/passwd; exec "$@"', "sh"],
    )
    assert b"7" not in run.stdout.split()
    assert "7" not in run.runtime_log


@pytest.mark.process
def test_standard_streams_that_are_closed_harm_nothing(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, "echo done"), wrap=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
    assert (run.process.returncode, run.stdout_log) == (0, b"done\n")


@pytest.mark.process
def test_a_hook_that_nobody_can_call_is_a_step_that_cannot_be_started(tmp_path: Path) -> None:
    hook = Step("taskStarts", 0, "fail", hook="pai_task_starts")
    (tmp_path / "work").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps(plan(tmp_path, "true", [hook]).to_json()))
    argv = python_argv("pai_task.supervisor.__main__", str(tmp_path))
    assert subprocess.run(argv, check=False).returncode == SETUP_FAILED
    assert "hookArgv" in (tmp_path / "logs/runtime.log").read_text()


@pytest.mark.process
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "file: /bundled directory:"),
        ({"SSL_CERT_FILE": "/own"}, "file: /own directory:"),
        ({"SSL_CERT_DIR": "/own"}, "file: directory: /own"),
    ],
)
def test_hooks_have_certificates_unless_the_environment_names_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    hook = Step("taskStarts", 0, "fail", hook="pai_task_starts")
    (tmp_path / "work").mkdir()
    given = plan(tmp_path, 'echo "user: ${SSL_CERT_FILE-}"', [hook], environment=environment)
    (tmp_path / "plan.json").write_text(json.dumps(given.to_json()))
    show = ("/bin/sh", "-c", "echo file: $SSL_CERT_FILE directory: $SSL_CERT_DIR")
    options = LaunchOptions(hook_argv=show, certificates="/bundled").to_argument()
    argv = python_argv("pai_task.supervisor.__main__", str(tmp_path), options)
    stdout = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert f"{expected}\n" in (tmp_path / "logs/runtime.log").read_text()
    assert stdout == f"user: {environment.get('SSL_CERT_FILE', '')}\n"


@pytest.mark.process
def test_logs_go_where_the_platform_wants_them_with_a_copy_of_the_record(tmp_path: Path) -> None:
    (tmp_path / "platform").mkdir()
    folder, logs = tmp_path / "task", tmp_path / "platform" / "uid"
    run = run_task(
        plan(folder, "echo out; echo err >&2; exit 3", [shell("taskStarts", 0, "echo step")]),
        LaunchOptions(logs=str(logs)),
    )
    assert run.process.returncode == 3
    assert (logs / "user-stdout/current").read_text() == "out\n"
    assert (logs / "user-stderr/current").read_text() == "err\n"
    assert (logs / "user-all/current").read_text() == "out\nerr\n"
    assert "step" in (logs / "runtime.log").read_text()
    assert (logs / "exit.yaml").read_bytes() == (folder / "exit.yaml").read_bytes()
    assert not (folder / "logs").exists()


@pytest.mark.process
def test_the_command_begins_in_the_working_directory_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    run = run_task(
        plan(tmp_path / "task", 'pwd; echo "$PAI_WORK_DIR"', [shell("taskStarts", 0, "pwd")]),
        LaunchOptions(work=str(tmp_path / "image")),
    )
    assert run.stdout.decode().splitlines() == [str(tmp_path / "image")] * 2
    assert str(tmp_path / "image") in run.runtime_log


@pytest.mark.process
def test_a_place_that_takes_no_record_is_said_and_fails_nothing(tmp_path: Path) -> None:
    options = LaunchOptions(logs=str(tmp_path / "logs"), termination_log=str(tmp_path / "missing" / "log"))
    run = run_task(plan(tmp_path, "rm -r ../logs; ln -s /nowhere ../logs"), options)
    assert (run.process.returncode, run.record["exitCode"]) == (0, 0)
    assert all(
        f"cannot write {place}" in run.stderr.decode() for place in (options.termination_log, options.logs)
    )


@pytest.mark.process
def test_a_termination_log_that_cannot_be_written_is_said_in_the_log_of_the_runtime(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path), LaunchOptions(termination_log=str(tmp_path / "missing" / "log")))
    assert run.process.returncode == 0
    assert any("missing/log" in line for line in run.runtime_log)
