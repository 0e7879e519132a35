"""Variables: how steps set them, who set each, and what happens when there are too many."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_runtime.engines.local.reader import LocalRunReader
from pai_runtime.runs.state import RunTask
from pai_task.placeholders import placeholder
from pai_task.variables import Setting, parse_settings
from tests.played_run import PlayedRun
from tests.support import callback, cli, job, write_job
from tests.task_harness import plan, run_task, shell

_VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(_VALUES)
def test_any_value_can_be_written_in_several_lines(value: str) -> None:
    assert list(parse_settings(f"NAME<<-end-of-it-\n{value}\n-end-of-it-\n")) == [Setting("NAME", value)]


@given(_VALUES.filter(lambda value: "\n" not in value))
def test_any_value_of_one_line_can_be_written_behind_its_name(value: str) -> None:
    assert list(parse_settings(f"NAME={value}\n")) == [Setting("NAME", value)]


@given(st.text("AB=<+\n PATH1", max_size=40))
def test_any_text_gives_settings_or_reasons(text: str) -> None:
    for setting in parse_settings(text):
        assert isinstance(setting, Setting) or setting.startswith("line ")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", []),
        ("A=1\n\nB=x=y\n", [Setting("A", "1"), Setting("B", "x=y")]),
        ("A=", [Setting("A", "")]),
        ("PATH+=/opt/bin", [Setting("PATH", "/opt/bin", is_path_entry=True)]),
        ("A<<END\nB=1\n\nEND\nC=2", [Setting("A", "B=1\n"), Setting("C", "2")]),
        (
            "1A=2\nno\n=x",
            ["line 1 is not NAME=value", "line 2 is not NAME=value", "line 3 is not NAME=value"],
        ),
        ("A<<END\nB=1", ["line 1: unterminated value of A: no line is 'END'"]),
    ],
)
def test_what_the_lines_of_the_file_mean(text: str, parsed: list[Setting | str]) -> None:
    assert list(parse_settings(text)) == parsed


@pytest.mark.process
def test_a_step_in_any_language_sets_variables_through_the_file(tmp_path: Path) -> None:
    python = (
        "python3 - <<'END'\nimport os\nwith open(os.environ['PAI_ENV'], 'a') as file:\n"
        "    file.write('FROM_PYTHON<<+++\\ntwo\\nlines\\n+++\\nPATH+=/opt/first\\n')\nEND\n"
    )
    steps = [
        shell("taskStarts", 0, python + 'echo "SHELL_TOO=1" >> "$PAI_ENV"\nexport EXPORTED=2\nexit 0'),
        shell("taskStarts", 1, "echo nonsense > $PAI_ENV"),
        shell("taskExits", 1, 'echo "exit sees $SHELL_TOO"'),
    ]
    command = 'echo "$FROM_PYTHON $SHELL_TOO $EXPORTED ${PAI_ENV-unset}"; echo "${PATH%%:*}"'
    run = run_task(plan(tmp_path, command, steps))
    assert run.stdout_log == b"two\nlines 1 2 unset\n/opt/first\n"
    assert "[WARNING] what 'b' wrote to $PAI_ENV: line 1 is not NAME=value" in run.runtime_log
    assert "exit sees 1" in run.runtime_log


@pytest.mark.process
def test_a_step_registers_a_new_secret_that_is_masked_at_once(tmp_path: Path) -> None:
    script = (
        'token=fresh-$((20 + 3))-token\necho $token > "$PAI_MASK"\necho it is $token\nexport TOKEN=$token'
    )
    command = 'echo and $TOKEN; echo secret-of-the-command > "$PAI_MASK"; echo now secret-of-the-command'
    run = run_task(plan(tmp_path, command, [shell("taskStarts", 0, script)]))
    assert "it is ******" in run.runtime_log
    assert run.stdout_log == b"and ******\nnow ******\n"
    assert "fresh-23-token" not in (tmp_path / "variables.json").read_text()


@pytest.mark.process
def test_explain_names_who_set_each_variable(tmp_path: Path) -> None:
    prerequisite = {
        "name": "data",
        "callbacks": [
            callback("taskStarts", "export DATA=/data TOKEN=<% $secrets.token %>", "export HOME=/else")
        ],
    }
    document = job(
        prerequisites=[prerequisite], worker={"prerequisites": ["data"]}, secrets={"token": "sesame-open"}
    )
    run = tmp_path / "run"
    path = write_job(tmp_path, document)
    assert cli("run", path, "--out", run, "--env", "GIVEN", env={"GIVEN": "abc-1"}).returncode == 0
    ended = cli("variables", run, "worker/0")
    lines = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    sources = {
        re.split("[= ]", line.rpartition("  ")[2])[0]: line.partition("  ")[0]
        for line in ended.stdout.splitlines()
    }
    assert lines
    assert sources["DATA"] == sources["HOME"] == sources["TOKEN"] == "data, taskStarts"
    assert sources["PAI_TASK_INDEX"] == "platform"
    assert sources["PAI_HOST_IP_worker_0"] == "peers"
    assert sources["PAI_WORK_DIR"] == "runtime"
    assert sources["GIVEN"] == "image"
    assert "abc-1" not in ended.stdout
    assert "TOKEN=******" in ended.stdout
    assert "sesame" not in ended.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("extras", "given", "said"),
    [
        ({}, {}, "1 runtime"),
        ({"environment": ["PYTHONUNBUFFERED"]}, {"PYTHONUNBUFFERED": ""}, " image"),
        ({"environment": ["PYTHONUNBUFFERED"]}, {"PYTHONUNBUFFERED": "x"}, "x image"),
    ],
    ids=["nobody", "to nothing", "to a value"],
)
def test_python_writes_at_once_unless_somebody_decides_about_it(
    tmp_path: Path, extras: dict[str, Any], given: dict[str, str], said: str
) -> None:
    path = write_job(tmp_path, job(worker={"commands": ['echo "<$PYTHONUNBUFFERED>"']}, extras=extras))
    ended = cli("run", path, "--out", tmp_path / "run", env=given)
    value, _, source = said.partition(" ")
    assert f"<{value}>" in ended.stdout
    variables = json.loads((tmp_path / "run/worker/0/variables.json").read_text())
    assert variables["PYTHONUNBUFFERED"]["source"] == source


@pytest.mark.process
def test_the_last_words_of_a_python_program_that_is_killed_are_in_the_log(tmp_path: Path) -> None:
    program = "print('last words'); import os; os.kill(os.getpid(), 9)"
    path = write_job(tmp_path, job(worker={"commands": [f'{sys.executable} -c "{program}"']}))
    ended = cli("run", path, "--out", tmp_path / "run")
    assert ended.returncode == 137
    assert "last words" in ended.stdout


@pytest.mark.process
def test_explain_says_what_is_not_there(tmp_path: Path) -> None:
    ended = cli("variables", tmp_path, "worker/0")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"cannot read the run {tmp_path}" in ended.stderr
    PlayedRun(tmp_path, worker=1)
    ended = cli("variables", tmp_path, "worker/7")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no task 'worker/7'" in ended.stderr
    ended = cli("variables", tmp_path, "worker/0")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"{tmp_path}/worker/0" in ended.stderr


@pytest.mark.process
def test_one_task_of_ten_thousand_starts_and_can_read_where_its_peers_are(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"instances": 10_000}))
    ended = cli("plan", path, "--task", "worker/9999", "--json")
    document = json.loads(ended.stdout)
    document["folder"] = str(tmp_path / "worker/9999")
    document["command"]["script"] = (
        "echo $PAI_TASK_INDEX $PAI_TASKS_NUM $PAI_HOST_IP_worker_0 ${PAI_HOST_IP_worker_9998-unset}\n"
        '. "$PAI_TASKS_SCRIPT"\n'
        "echo $PAI_HOST_IP_worker_9998 ${#PAI_TASK_ROLE_worker_HOST_LIST}\n"
        f"{shlex.quote(sys.executable)} - <<'END'\nimport json, os\n"
        "print(json.load(open(os.environ['PAI_TASKS_FILE']))['PAI_PORT_LIST_worker_9998_http'])\nEND\n"
    )
    run = run_task(plan(tmp_path / "worker/9999"), plan_text=json.dumps(document))
    assert run.process.returncode == 0, run.stderr
    assert run.stdout.decode().splitlines() == [
        "9999 10000 127.0.0.1 unset",
        f"127.0.0.1 {10_000 * len('127.0.0.1:15001,') - 1}",
        str(15000 + 2 * 9998 + 1),
    ]
    assert any(
        "do not fit into the environment; all are in $PAI_TASKS_FILE" in line for line in run.runtime_log
    )
    task = RunTask("worker", 9999, "succeeded", 0, 0, 0.0, 0.0)
    variables = LocalRunReader(tmp_path).variables(task).known
    assert variables["PAI_TASK_INDEX"] == {"source": "platform", "value": "9999"}
    assert len(variables) > 1000


@pytest.mark.process
def test_the_file_for_the_peers_holds_no_secret(tmp_path: Path) -> None:
    long = "x" * 200_000
    run = run_task(
        plan(tmp_path, "true", environment={"LONG": long, "S": placeholder("y")}),
        secrets={"y": "sesame-open"},
    )
    assert run.process.returncode == 0
    assert "sesame-open" not in (tmp_path / "tasks.json").read_text()
