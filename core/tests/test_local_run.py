"""``pai-runtime run``: whole jobs as processes on this machine."""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_runtime import __version__
from pai_task.masking import SHORTEST
from pai_task.runtime_log import PRINTED
from tests.support import JOBS, PROGRAM, callback, cli, job, runtime_log, write_job

pytestmark = pytest.mark.process

IN_THE_OPEN = ("--isolation", "none")
"""For tasks that talk to the test through files of the machine."""


def _without_extras(name: str) -> dict[str, Any]:
    """A test case of the specification without its ssh extra."""
    document: dict[str, Any] = yaml.safe_load((JOBS / name).read_text())
    document.pop("extras", None)
    return document


@pytest.mark.parametrize("name", ["pre1", "pre2"])
def test_the_specifications_test_cases_give_the_log_that_is_written_there(tmp_path: Path, name: str) -> None:
    path = write_job(tmp_path, _without_extras(f"{name}.yaml"))
    assert cli("run", path, "--out", tmp_path / "run").returncode == 0
    expected = (JOBS / f"{name}.runtime.log").read_text().splitlines()
    log = runtime_log(tmp_path / "run" / "taskrole" / "0")
    assert [line for line in log if not line.startswith(PRINTED)] == expected


def test_parameters_and_secrets_reach_the_callbacks(tmp_path: Path) -> None:
    path = write_job(tmp_path, _without_extras("parameters_and_secrets.yaml"))
    assert cli("run", path, "--out", tmp_path / "run").returncode == 0
    assert {"111", "222"} <= set(runtime_log(tmp_path / "run" / "taskrole" / "0"))


def test_a_reference_to_a_prerequisite_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    ended = cli("run", JOBS / "pre3_wrong.yaml", cwd=tmp_path)
    assert ended.returncode == 2
    assert re.search(r"pre3_wrong\.yaml:\d+:\d+: .*'justecho_wrong'.*did you mean justecho\?", ended.stderr)
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_a_data_prerequisite_reaches_the_users_command(tmp_path: Path) -> None:
    text = (JOBS / "covid_data_callbacks.yaml").read_text()
    text = text.replace("/data/covid19", "covid19").replace("wget https://x.x.x/yyy.zip", "touch yyy.zip")
    ended = cli("run", write_job(tmp_path, text), "--out", tmp_path / "run")
    assert ended.returncode == 0
    assert "yyy.zip" in ended.stdout


def test_every_task_of_every_role_runs_in_a_folder_of_its_own(tmp_path: Path) -> None:
    document = job(worker={"instances": 3, "commands": ["pwd > here", "echo $PAI_WORK_DIR $PAI_TASK_INDEX"]})
    document["taskRoles"]["server"] = {**document["taskRoles"]["worker"], "instances": 1}
    document["taskRoles"]["worker"]["completion"] = {"minSucceededInstances": -1}
    document["taskRoles"]["server"]["completion"] = {"minSucceededInstances": -1}
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 0
    for name in ("worker/0", "worker/1", "worker/2", "server/0"):
        task = tmp_path / "run" / name
        assert (task / "work" / "here").read_text() == f"{task}/work\n"
        assert f"{name} | {task}/work {name[-1]}\n" in ended.stdout
        assert json.loads((task / "plan.json").read_text())["folder"] == str(task)
        assert yaml.safe_load((task / "exit.yaml").read_text())["exitCode"] == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["outcome"] == "succeeded"
    assert [(task["role"], task["index"], task["exitCode"]) for task in run["tasks"]] == [
        ("worker", 0, 0),
        ("worker", 1, 0),
        ("worker", 2, 0),
        ("server", 0, 0),
    ]


def test_no_two_tasks_are_given_one_port_and_all_can_be_bound(tmp_path: Path) -> None:
    bind = (
        "import os, socket\n"
        "for part in os.environ['PAI_CONTAINER_HOST_PORT_LIST'].rstrip(';').split(';'):\n"
        "    for port in part.partition(':')[2].split(','):\n"
        "        socket.socket().bind(('', int(port)))\n"
        "        print(port)\n"
    )
    resources = {"cpu": 1, "memoryMB": 1, "gpu": 0, "ports": {"tcp": 3}}
    document = job(
        worker={
            "instances": 4,
            "resourcePerInstance": resources,
            "commands": [f"python3 - <<'END'\n{bind}END"],
        }
    )
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    ports = re.findall(r"\| (\d+)", ended.stdout)
    assert len(ports) == len(set(ports)) == 4 * (3 + 2)


def test_the_default_folder_counts_up(tmp_path: Path) -> None:
    path = write_job(tmp_path, job())
    for number in (1, 2):
        assert cli("run", path, cwd=tmp_path).returncode == 0
        assert (tmp_path / ".pai-runs" / f"test-{number}" / "run.json").is_file()


def test_the_exit_status_is_the_code_of_the_task_that_failed_the_job(tmp_path: Path) -> None:
    commands = ["if [ $PAI_TASK_INDEX = 1 ]; then exit 42; fi", "sleep 1000"]
    document = job(worker={"instances": 3, "commands": commands})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 42
    assert "the job failed: task worker/1, exit code 42" in ended.stderr
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["outcome"], run["failedTask"]) == ("failed", "worker/1")
    for index in (0, 2):
        record = yaml.safe_load((tmp_path / "run" / "worker" / str(index) / "exit.yaml").read_text())
        assert record["outcome"] == "cancelled"


def test_a_failed_setup_is_explained_where_the_person_looks(tmp_path: Path) -> None:
    prerequisite = {
        "name": "tool",
        "callbacks": [callback("taskStarts", "echo looking", "nosuchtool --install")],
    }
    document = job(prerequisites=[prerequisite], worker={"prerequisites": ["tool"], "commands": ["echo ran"]})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 220
    assert (
        f"taskStarts of 'tool' (com.microsoft.pai.runtimeplugin.cmd, pai-cmd {__version__}, " in ended.stderr
    )
    assert "tool: line 2: nosuchtool: command not found" in ended.stderr
    assert "ran" not in ended.stdout


def test_a_time_limit_ends_the_job(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["sleep 1000"]}))
    ended = cli("run", path, "--out", tmp_path / "run", "--timeout", "4s")
    assert ended.returncode == 242
    assert "the task timed out in command" in ended.stderr


def test_a_time_limit_of_the_job_ends_its_tasks_which_are_not_retried(tmp_path: Path) -> None:
    extras = {"timeout": "1.5s", "gangAllocation": False}
    worker = {"commands": ["sleep 1000"], "taskRetryCount": 2}
    path = write_job(tmp_path, job(worker=worker, extras=extras, jobRetryCount=1))
    ended = cli("run", path, "--out", tmp_path / "run")
    assert ended.returncode == 242
    found = json.loads(cli("ps", tmp_path / "run", "--json").stdout)
    (task,) = found["tasks"]
    assert (task["exitCode"], task["retries"], found["retries"]) == (242, 0, 0)
    planned = json.loads(cli("plan", path, "--task", "worker/0", "--json").stdout)
    assert planned["timeout"] == 1.5
    assert 242 in planned["permanentCodes"]


@pytest.mark.parametrize("time", ["0s", "0.000h", "-1s", "5", 5, True, "soon"])
def test_a_time_limit_that_is_none_is_refused_with_its_place(tmp_path: Path, time: Any) -> None:
    checked = cli("validate", write_job(tmp_path, job(extras={"timeout": time})), "--json")
    (problem,) = json.loads(checked.stdout)["problems"]
    assert (problem["severity"], problem["field"]) == ("error", "extras.timeout")


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_the_job_and_leaves_nothing_running(tmp_path: Path, times: int) -> None:
    os.mkfifo(tmp_path / "ready")
    trap = "trap 'echo > ready2' TERM" if times == 2 else ":"
    os.mkfifo(tmp_path / "ready2")
    commands = [
        f"cd {shlex.quote(str(tmp_path))}",
        trap,
        "echo $$ > pid",
        "echo > ready",
        "while :; do sleep 0.01; done",
    ]
    path = write_job(tmp_path, job(worker={"commands": commands}))
    process = subprocess.Popen(
        [PROGRAM, "run", path, "--out", tmp_path / "run", *IN_THE_OPEN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    (tmp_path / "ready").read_text()
    process.send_signal(signal.SIGINT)
    if times == 2:
        (tmp_path / "ready2").read_text()
        process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"the job was cancelled" in stderr
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["outcome"] == "cancelled"


def test_killing_the_engine_leaves_no_task_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    os.mkfifo(tmp_path / "ended")
    go = f"cd {shlex.quote(str(tmp_path))}"
    exits = {
        "name": "tidy",
        "callbacks": [callback("taskExits", f"{go}; echo $PAI_TASK_OUTCOME > ended")],
    }
    commands = [go, "echo $$ > pid", "echo > ready", "exec sleep 1000"]
    document = job(prerequisites=[exits], worker={"prerequisites": ["tidy"], "commands": commands})
    with subprocess.Popen(
        [PROGRAM, "run", write_job(tmp_path, document), "--out", tmp_path / "run", *IN_THE_OPEN],
        stderr=subprocess.DEVNULL,
    ) as process:
        (tmp_path / "ready").read_text()
        process.kill()
    assert (tmp_path / "ended").read_text() == "cancelled\n"
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_supervisor_that_is_killed_leaves_a_record_all_the_same(tmp_path: Path) -> None:
    commands = ["ppid=$(grep PPid /proc/$$/status)", "kill -KILL ${ppid##*[!0-9]}"]
    path = write_job(tmp_path, job(worker={"commands": commands}, secrets={"token": "value-of-it"}))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "none")
    assert ended.returncode == 137
    record = yaml.safe_load((tmp_path / "run" / "worker" / "0" / "exit.yaml").read_text())
    assert record["exitCode"] == 137
    assert "killed before it could record" in record["message"]


def test_a_supervisor_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    commands = [
        "setsid sleep 1000 & echo $! > pid",
        "ppid=$(grep PPid /proc/$$/status)",
        "kill -KILL ${ppid##*[!0-9]}",
        "exec sleep 1000",
    ]
    path = write_job(tmp_path, job(worker={"commands": commands}))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "none")
    assert ended.returncode == 137
    pid = (tmp_path / "run/worker/0/work/pid").read_text().strip()
    assert not Path("/proc", pid).exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_the_caller_has_closed_are_no_reason_to_fail(tmp_path: Path, closed: str) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["echo out; echo err >&2"]}))
    script = f'exec "$@" {closed}'
    ended = subprocess.run(
        ["sh", "-c", script, "sh", PROGRAM, "run", path, "--out", tmp_path / "run"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
    assert (tmp_path / "run/worker/0/logs/user-stdout/current").read_text() == "out\n"


def test_a_supervisor_that_was_stopped_can_be_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    commands = ["kill -STOP $PPID", f"echo > {shlex.quote(str(tmp_path))}/ready", "exec sleep 1000"]
    path = write_job(tmp_path, job(worker={"commands": commands}))
    with subprocess.Popen([PROGRAM, "run", path, "--out", tmp_path / "run", *IN_THE_OPEN]) as process:
        (tmp_path / "ready").read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


class TestSecrets:
    """No value of a secret stays anywhere."""

    value = "correct horse battery staple"

    def _job(self, **fields: Any) -> dict[str, Any]:
        # The value backwards, so that the job file itself does not hold it.
        test = f'[ "$(echo "<% $secrets.token %>" | rev)" = "{self.value[::-1]}" ]'
        commands = [test + ' && echo "<% $secrets.token %>"']
        return job(worker={"commands": commands}, **fields)

    def _nowhere_but_in(self, folder: Path, *files: Path) -> None:
        for path in folder.rglob("*"):
            if path.is_file() and path not in files:
                assert self.value not in path.read_text(errors="replace"), path

    def test_the_jobs_own_secrets_are_in_no_file_of_the_run(self, tmp_path: Path) -> None:
        ended = cli(
            "run", write_job(tmp_path, self._job(secrets={"token": self.value})), "--out", tmp_path / "run"
        )
        assert (ended.returncode, ended.stdout) == (0, "******\n")
        assert self.value not in ended.stderr
        self._nowhere_but_in(tmp_path / "run")

    @pytest.mark.parametrize("own", [{}, {"token": "other", "more": "kept"}])
    def test_a_secrets_file_completes_and_overrides_them(self, tmp_path: Path, own: dict[str, str]) -> None:
        secrets = tmp_path / "secrets.yaml"
        secrets.write_text(f"token: {self.value}\n")
        path = write_job(tmp_path, self._job(**({"secrets": own} if own else {})))
        ended = cli("run", path, "--secrets", secrets, "--out", tmp_path / "run")
        assert (ended.returncode, ended.stdout) == (0, "******\n")
        self._nowhere_but_in(tmp_path, secrets)

    def test_one_that_is_too_short_to_hide_is_named(self, tmp_path: Path) -> None:
        path = write_job(tmp_path, job(secrets={"pin": "1" * (SHORTEST - 1), "token": self.value}))
        ended = cli("run", path, "--out", tmp_path / "run")
        assert f"the secret 'pin' is shorter than {SHORTEST} bytes" in ended.stderr
        assert "'token' is shorter" not in ended.stderr


def test_what_this_machine_does_not_give_is_said_once(tmp_path: Path) -> None:
    resources = {"cpu": 1, "memoryMB": 100, "gpu": 2}
    document = job(worker={"instances": 3, "resourcePerInstance": resources})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 0
    said = [line for line in ended.stderr.splitlines() if line.startswith("pai-runtime: note: ")]
    assert [next(word for word in ("programs", "GPU") if word in line) for line in said] == [
        "programs",
        "GPU",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--out", "full"], "is not empty; choose a new directory with --out"),
        (["--out", "file"], "cannot create the directory of the run"),
        (["--timeout", "soon"], "--timeout: expected a time, "),
        (["--secrets", "missing.yaml"], "missing.yaml: error: cannot be read: No such file or directory"),
        (["--policy", "missing.yaml"], "missing.yaml: error: cannot be read: No such file or directory"),
    ],
)
def test_a_run_that_cannot_be_made_starts_nothing_and_changes_nothing(
    tmp_path: Path, args: list[str], message: str
) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["touch ../../../ran"]}))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").touch()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    ended = cli("run", path, *args, cwd=tmp_path)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted(tmp_path.rglob("*")) == before
