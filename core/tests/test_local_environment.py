"""The environment of tasks that run here: what programs need, what was asked for, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from pai_runtime.engines.local.environment import PASSED, is_name, local_environment
from tests.support import PROGRAM, callback, cli, job, write_job

KEY = "sesame-open-key"


def seen(path: Path, *args: str, **env: str) -> dict[str, str]:
    """The environment of a task that prints it."""
    ended = cli("run", path, "--out", path.parent / "run", *args, env=env)
    assert ended.returncode == 0, ended.stderr
    return dict(line.split("=", 1) for line in ended.stdout.splitlines() if "=" in line)


@pytest.mark.parametrize(
    "name", [*PASSED, "LC_ALL", "LC_MESSAGES", "https_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"]
)
def test_what_programs_need_is_passed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "some:value")
    assert local_environment([])[name] == "some:value"


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "PAI_HOST_IP_other_0", "FC_X", "lc"]
)
def test_all_else_is_passed_where_it_is_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "value")
    assert name not in local_environment([])
    assert local_environment([name])[name] == "value"


def test_a_proxy_with_a_password_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:sesame@proxy:3128")
    assert "https_proxy" not in local_environment([])


@pytest.mark.parametrize("name", ["", "A-B", "1A", "A=b", "A\n", "Ä"])
def test_what_is_no_name_cannot_be_asked_for(name: str) -> None:
    assert not is_name(name)


@pytest.mark.process
def test_the_environment_that_the_program_is_installed_in_is_not_that_of_its_tasks(tmp_path: Path) -> None:
    # As somebody starts it by its path, without having activated anything.
    path = write_job(tmp_path, job(worker={"commands": ["env"]}))
    ended = subprocess.run(
        [PROGRAM, "run", path, "--out", tmp_path / "run"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PATH=/usr/bin:/bin" in ended.stdout.splitlines()
    assert sys.prefix not in ended.stdout
    assert [line for line in ended.stdout.splitlines() if line.startswith("PYTHON")] == ["PYTHONUNBUFFERED=1"]
    assert "VIRTUAL_ENV" not in ended.stdout


@pytest.mark.process
def test_a_job_and_the_command_line_ask_for_variables_by_their_names(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["env"]}, extras={"environment": ["ASKED"]}))
    task = seen(path, "--env", "NAMED", ASKED="1", NAMED="2", OTHER="3", PAI_HOST_IP_other_0="10.0.0.1")
    assert (task["ASKED"], task["NAMED"]) == ("1", "2")
    assert "OTHER" not in task
    assert "PAI_HOST_IP_other_0" not in task


@pytest.mark.process
def test_a_variable_that_is_asked_for_and_not_set_is_told(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(extras={"environment": ["NOT_SET_1"]}))
    ended = cli("run", path, "--out", tmp_path / "run", "--env", "NOT_SET_2")
    assert ended.returncode == 0
    for name in ("NOT_SET_1", "NOT_SET_2"):
        assert any(name in line for line in ended.stderr.splitlines())


@pytest.mark.process
def test_the_command_line_sets_variables_whatever_else_would(tmp_path: Path) -> None:
    prepares = {"name": "prepares", "callbacks": [callback("taskStarts", 'echo "START_$MODE"=1')]}
    path = write_job(
        tmp_path, job(prerequisites=[prepares], worker={"prerequisites": ["prepares"], "commands": ["env"]})
    )
    given = [
        "--env",
        "MODE=a b=c",
        "--env",
        "EMPTY=",
        "--env",
        "PATH_TO=/x",
        "--env",
        "NVIDIA_VISIBLE_DEVICES=7",
    ]
    task = seen(path, *given, MODE="mine", PATH_TO="mine")
    assert (task["MODE"], task["EMPTY"], task["PATH_TO"]) == ("a b=c", "", "/x")
    assert task["NVIDIA_VISIBLE_DEVICES"] == "7"
    shown = cli("variables", tmp_path / "run", "worker").stdout.splitlines()
    assert [line.split()[0] for line in shown if "MODE=" in line] == ["--env"]


@pytest.mark.process
@pytest.mark.parametrize("given", [f"TOKEN={KEY}", f"PAI_JOB_NAME={KEY}", f"a b={KEY}", f"={KEY}"])
def test_a_value_that_may_be_secret_or_is_the_runtimes_is_refused_and_not_shown(
    given: str, tmp_path: Path
) -> None:
    path = write_job(tmp_path, job())
    ended = cli("run", path, "--out", tmp_path / "run", "--env", given)
    assert ended.returncode == 2
    assert KEY not in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@pytest.mark.parametrize("written", [[f"TOKEN={KEY}"], {"TOKEN": KEY}, [{"TOKEN": KEY}], f"TOKEN={KEY}"])
def test_a_value_in_the_job_is_refused_and_not_shown(written: object, tmp_path: Path) -> None:
    ended = cli("validate", write_job(tmp_path, job(extras={"environment": written})))
    assert ended.returncode == 1
    assert KEY not in ended.stderr
