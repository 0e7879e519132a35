"""The plan: the same each time, without secret values, and with the origin of every part."""

import json
import subprocess
from pathlib import Path

import pytest

from pai_document.problems import Problems
from pai_runtime import __version__
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_task.plan import PLATFORM, Command, Plan, Variable
from pai_task.record import replace
from tests.plugin_factory import Site, uses
from tests.support import JOBS, PROGRAM, callback, cli, job, write_job

pytestmark = pytest.mark.process

_WITH_SECRETS = job(
    prerequisites=[
        {
            "name": "login",
            "callbacks": [
                callback("taskStarts", "echo <% $secrets.token %>", "export T='<% $secrets.keys[1] %>'")
            ],
        }
    ],
    secrets={"token": "hunter-2-hunter", "keys": ["first-key-value", "second-key-value"]},
    worker={"prerequisites": ["login"], "commands": ["run --token <% $secrets.token %>"], "instances": 2},
)


def test_the_same_inputs_give_the_same_bytes() -> None:
    outputs = {
        cli("plan", JOBS / "tensorflow_cifar10.yaml", "--json", env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    "form", [[], ["--full"], ["--json"], ["--full", "--task", "worker/0"], ["--task", "worker", "--json"]]
)
def test_a_plan_holds_no_secret_value(tmp_path: Path, form: list[str]) -> None:
    ended = cli("plan", write_job(tmp_path, _WITH_SECRETS), *form)
    assert ended.returncode == 0
    for value in ("hunter-2-hunter", "first-key-value", "second-key-value"):
        assert value not in ended.stdout + ended.stderr
    if "--full" in form:
        assert "run --token <% $secrets.token %>" in ended.stdout


def test_the_json_is_the_plan_itself(tmp_path: Path) -> None:
    path = write_job(tmp_path, _WITH_SECRETS)
    one = json.loads(cli("plan", path, "--task", "worker/1", "--json").stdout)
    assert Plan.from_json(one).to_json() == one
    assert (one["planVersion"], one["role"], one["index"]) == (1, "worker", 1)
    both = json.loads(cli("plan", path, "--json").stdout)
    assert [plan["index"] for plan in both["plans"]] == [0, 1]
    assert {**both["plans"][1], "shared": both["shared"]} == one


def test_every_step_says_where_it_came_from(tmp_path: Path) -> None:
    path = write_job(tmp_path, _WITH_SECRETS)
    lines = cli("plan", path, "--full", "--task", "worker/0").stdout.splitlines()
    assert (
        f"  taskStarts  login  {path}:8:3  com.microsoft.pai.runtimeplugin.cmd (pai-cmd {__version__})"
        in lines
    )
    assert "    platform  PAI_TASK_INDEX=0" in lines
    assert any(line.startswith(f"  command  {path}:") for line in lines)


def test_the_example_of_the_protocol_plans_for_both_roles() -> None:
    path = JOBS / "tensorflow_cifar10.yaml"
    plans = {plan["role"]: plan for plan in json.loads(cli("plan", path, "--json").stdout)["plans"]}
    for role, name in (("worker", "worker"), ("ps_server", "ps")):
        script = plans[role]["command"]["script"].splitlines()
        assert script[0] == "wget https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz -P data_cifar10"
        assert script[1].startswith(
            "git clone https://MaggieQi:\0github_token\0@gh.neting.cc/MaggieQi/benchmarks "
        )
        assert "git checkout 84820935288cab696c9c2ac409cbd46a1f24723d" in script[1]
        assert script[2] == "cd script_tensorflow_cnnbenchmarks/scripts/tf_cnn_benchmarks"
        assert script[3].startswith(f"python tf_cnn_benchmarks.py --job_name={name} ")
        assert "--ps_hosts=$PAI_TASK_ROLE_ps_server_HOST_LIST" in script[3]
        assert "--model=resnet20 --batch_size=32" in script[3]
        assert "--train_dir=$PAI_WORK_DIR/output_tensorflow_cifar10_model" in script[3]
    assert len(plans["worker"]["command"]["script"].splitlines()) == 4
    upload = "hdfs dfs -cp output_tensorflow_cifar10_model hdfs://10.151.40.179:9000/core/cifar10_model"
    assert upload in plans["ps_server"]["command"]["script"].splitlines()
    assert "deployment 'prod'" in plans["worker"]["command"]["source"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("server/0", "no task role is named 'server'; known: worker"),
        ("worker/2", "no task is named 'worker/2'; known: worker/0 to worker/1"),
        *(
            (wrong, f"--task: expected ROLE/INDEX, such as worker/0, found '{wrong}'")
            for wrong in ("worker/x", "worker/-1", "/0")
        ),
    ],
)
def test_a_task_that_is_not_there_is_named(tmp_path: Path, task: str, message: str) -> None:
    ended = cli("plan", write_job(tmp_path, _WITH_SECRETS), "--task", task)
    assert ended.returncode == 2
    assert message in ended.stderr


def test_a_plan_that_somebody_stops_reading_is_no_error(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"instances": 200}))
    with subprocess.Popen([PROGRAM, "plan", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""


def test_tasks_that_differ_in_nothing_but_their_index_are_shown_as_one(tmp_path: Path) -> None:
    document = job(worker={"instances": 20})
    document["taskRoles"]["other"] = {**document["taskRoles"]["worker"], "instances": 1}
    lines = cli("plan", write_job(tmp_path, document), "--full").stdout.splitlines()
    heads = [line for line in lines if line.startswith("task")]
    assert heads == ["tasks worker/0 to worker/19 of job test", "task other/0 of job test"]
    assert lines.count("    platform  PAI_TASK_INDEX=0") == 2
    peers = [line for line in lines if line.startswith("    peers ")]
    assert len(peers) == 2 * 51  # fifty of each, and how many more there are


def test_tasks_to_which_a_plugin_adds_something_else_are_shown_apart(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add(
        "org.example.odd",
        "@hookimpl\ndef pai_prerequisite(use, task):\n"
        "    return Contribution({'ODD': str(task.index in (2, 3))})\n",
    )
    document = job(**uses("org.example.odd"))
    document["taskRoles"]["worker"]["instances"] = 6
    shown = site.cli("plan", write_job(tmp_path, document), "--full").stdout
    heads = [line for line in shown.splitlines() if line.startswith("task")]
    assert heads == [f"tasks worker/{first} to worker/{first + 1} of job test" for first in (0, 2, 4)]
    assert len(json.loads(site.cli("plan", tmp_path / "job.yaml", "--json").stdout)["plans"]) == 6


@pytest.mark.parametrize(("written", "policy"), [(None, "ignore"), ("ignore", "ignore"), ("fail", "fail")])
def test_what_the_place_of_a_task_decides_is_an_input_of_its_plan(
    written: str | None, policy: str, tmp_path: Path
) -> None:
    """Nobody adds to a plan once it is made: not the platform's command, nor what its containers are told."""
    use = {"plugin": "pvc_storage", "parameters": {"name": "data"}}
    path = write_job(
        tmp_path,
        job(
            extras={
                "com.microsoft.pai.runtimeplugin": [
                    {**use, **({"failurePolicy": written} if written else {})}
                ]
            }
        ),
    )
    attempt, left, command = (
        Variable("FC_TASK_ATTEMPT_ID", "1", PLATFORM),
        Variable("LEFT", "2", PLATFORM),
        Command("platform\n", "USER_CMD", nounset=False),
    )
    own = ("worker", 0)
    planner = plan_job(
        JobFiles(path),
        Host(NO_POLICY),
        lambda job: replace(
            (placement := example_placement(job, "alice")),
            places={own: replace(placement.places[own], variables=(attempt,))},
            listed_codes=(250, 255),
            optional_storages=True,
        ),
        Problems(),
    )
    made = planner.draft(own).plan(command, [left])
    assert (made.command, made.listed_codes) == (command, (250, 255))
    assert made.environment[-2:] == (attempt, left)
    assert [each.failure_policy for each in made.uses if each.name == "pvc_storage"] == [policy]
    assert {step.failure_policy for step in made.steps if made.uses[step.use].name == "pvc_storage"} == {
        policy
    }
    whole = planner.plans()[own]
    assert whole == replace(made, command=whole.command, environment=made.environment[:-1])
