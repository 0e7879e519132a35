"""The plugin com.microsoft.pai.runtimeplugin.distributed: what a task is told of the group that trains."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import pai_distributed
from pai_distributed import flight_recorder
from pai_plugin_kit import conformance
from pai_runtime.host.blame import PluginError
from pai_runtime.host.host import Host
from pai_runtime.host.planning import contribution_of
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plugin import Task, Use, UserError
from tests.init_harness import USES, PodFolder, api_server, framework, framework_variables, pod_job
from tests.job_harness import all_plans, build, parameter_problems, validated
from tests.support import ROOT, cli, job, write_job

ID = "com.microsoft.pai.runtimeplugin.distributed"
test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance(ID, "start_after"))
EXAMPLES = ROOT / "examples/distributed"

Telling = Callable[..., dict[str, str]]


def use(**parameters: Any) -> Use:
    return Use(ID, "distributed", parameters, "fail", "job.yaml:1:1", ("worker",), ("worker",))


def peers(
    instances: Mapping[str, int], host: str = "10.0.0.{}", labels: str = "distributed"
) -> dict[str, str]:
    """What the platform tells about tasks, each on a host of its own, numbered over all roles."""
    tasks = [(role, index) for role, count in instances.items() for index in range(count)]
    told = {f"PAI_HOST_IP_{role}_{index}": host.format(n) for n, (role, index) in enumerate(tasks)}
    for n, (role, index) in enumerate(tasks):
        told |= {f"PAI_PORT_LIST_{role}_{index}_{each}": f"{15000 + n},9" for each in labels.split()}
    return told


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Telling:
    """The variables that a task is given, by the hook that runs in it."""

    def telling(
        instances: dict[str, int], role: str, index: int, told: Mapping[str, str], **parameters: Any
    ) -> dict[str, str]:
        settings = tmp_path / "settings"
        for name, value in {**told, "PAI_ENV": str(settings)}.items():
            monkeypatch.setenv(name, value)
        pai_distributed.pai_task_starts(use(**parameters), Task("job", role, index, instances, {}, tmp_path))
        lines = settings.read_text().splitlines() if settings.exists() else []
        return dict(line.split("=", 1) for line in lines)

    return telling


@pytest.mark.process
def test_the_plugin_holds_what_its_manifest_declares() -> None:
    ended = cli("plugins", "check", ID)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_nothing_is_recorded_of_one_task_alone_nor_what_is_set_already_set_anew(tell: Telling) -> None:
    assert not any(
        name.startswith("TORCH_") for name in tell({"worker": 1}, "worker", 0, peers({"worker": 1}))
    )
    told = {**peers({"worker": 2}), "TORCH_FR_BUFFER_SIZE": "9"}
    assert "TORCH_FR_BUFFER_SIZE" not in tell({"worker": 2}, "worker", 0, told)


def test_each_framework_finds_the_variables_that_it_reads(tell: Telling, tmp_path: Path) -> None:
    instances = {"worker": 3}
    found = tell(instances, "worker", 1, peers(instances))
    config = json.loads(found.pop("TF_CONFIG"))
    assert config == {
        "cluster": {"worker": ["10.0.0.0:15000", "10.0.0.1:15001", "10.0.0.2:15002"]},
        "task": {"type": "worker", "index": 1},
    }
    assert (
        Path(found.pop("PAI_HOSTFILE")).read_text()
        == "worker-0 slots=1\nworker-1 slots=1\nworker-2 slots=1\n"
    )
    recorder = flight_recorder.variables(tmp_path / "distributed")
    assert {name: found.pop(name) for name in recorder} == recorder
    assert found == {
        "MASTER_ADDR": "10.0.0.0",
        "MASTER_PORT": "15000",
        "RANK": "1",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NNODES": "3",
        "NODE_RANK": "1",
        "PET_MASTER_ADDR": "10.0.0.0",
        "PET_MASTER_PORT": "15000",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "1",
        "JAX_COORDINATOR_ADDRESS": "10.0.0.0:15000",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "1",
    }


def test_each_role_trains_by_itself_unless_roles_are_named(tell: Telling) -> None:
    instances = {"server": 2, "worker": 2}
    found = tell(instances, "worker", 0, peers(instances))
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("0", "2", "10.0.0.2")


@pytest.mark.parametrize(
    ("role", "index", "rank", "task"),
    [
        ("Chief", 0, "0", {"type": "chief", "index": 0}),
        ("worker", 1, "2", {"type": "worker", "index": 1}),
        ("trainer", 0, "3", {"type": "worker", "index": 2}),
        ("ps_server", 0, "4", {"type": "ps", "index": 0}),
        ("evaluator", 0, "5", {"type": "evaluator", "index": 0}),
    ],
)
def test_ranks_follow_the_order_of_the_roles_that_are_named(
    tell: Telling, role: str, index: int, rank: str, task: dict[str, Any]
) -> None:
    instances = {"evaluator": 1, "ps_server": 1, "worker": 2, "trainer": 1, "Chief": 1}
    roles = ["Chief", "worker", "trainer", "ps_server", "evaluator"]
    found = tell(instances, role, index, peers(instances, "h{}"), roles=roles)
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == (rank, "6", "h5")
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["h5:15005"],
            "worker": ["h2:15002", "h3:15003", "h4:15004"],
            "ps": ["h1:15001"],
        },
        "task": task,
    }


def test_a_task_of_a_role_that_is_not_named_is_told_nothing(tell: Telling) -> None:
    instances = {"worker": 2, "monitor": 1}
    assert tell(instances, "monitor", 0, peers(instances), roles=["worker"]) == {}


@pytest.mark.parametrize(
    ("resources", "parameters", "each"),
    [("0,4,100,0", {}, "1"), ("8,4,100,0", {}, "8"), ("8,4,100,0", {"processes": 2}, "2")],
)
def test_launchers_start_a_process_for_each_gpu_unless_the_job_says_how_many(
    tell: Telling, resources: str, parameters: dict[str, int], each: str
) -> None:
    told = {**peers({"worker": 1}), "PAI_RESOURCE_worker": resources}
    found = tell({"worker": 1}, "worker", 0, told, **parameters)
    assert (found["PET_NPROC_PER_NODE"], found["WORLD_SIZE"]) == (each, "1")
    assert Path(found["PAI_HOSTFILE"]).read_text() == f"worker-0 slots={each}\n"


def test_where_a_platform_does_not_know_the_plugins_port_it_is_http(tell: Telling) -> None:
    found = tell({"worker": 1}, "worker", 0, peers({"worker": 1}, labels="http"))
    assert found["MASTER_PORT"] == "15000"


def test_an_ipv6_address_is_in_brackets_where_a_port_follows(tell: Telling) -> None:
    found = tell({"worker": 1}, "worker", 0, peers({"worker": 1}, "fd00::{}"))
    assert found["MASTER_ADDR"] == "fd00::0"
    assert found["JAX_COORDINATOR_ADDRESS"] == "[fd00::0]:15000"


def test_the_addresses_of_a_very_large_job_are_in_a_file(tmp_path: Path, tell: Telling) -> None:
    instances = {"worker": 5000}
    (tmp_path / "tasks.json").write_text(json.dumps(peers(instances, "h{}")))
    found = tell(instances, "worker", 4999, {"PAI_TASKS_FILE": str(tmp_path / "tasks.json")})
    assert (found["MASTER_ADDR"], found["RANK"]) == ("h0", "4999")
    assert len(Path(found["PAI_HOSTFILE"]).read_text().splitlines()) == 5000


@pytest.mark.parametrize("told", [{}, {"PAI_HOST_IP_worker_0": "10.0.0.1"}])
def test_an_address_that_is_not_known_is_an_error_that_names_the_task(
    tell: Telling, told: dict[str, str]
) -> None:
    with pytest.raises(UserError, match="worker/0"):
        tell({"worker": 1}, "worker", 0, told)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (["worker", "wroker"], "found wroker; known: worker, server"),
        (["worker", "worker"], "each of them once"),
        (["worker", "server"], "server do not use the plugin"),
    ],
)
def test_roles_that_make_no_group_are_refused_while_the_job_is_planned(
    tmp_path: Path, roles: list[str], message: str
) -> None:
    host = Host(NO_POLICY)
    task = Task("job", "worker", 0, {"worker": 1, "server": 1}, {}, tmp_path)
    with pytest.raises(PluginError, match=message):
        contribution_of(host.load(host.find(ID)), use(roles=roles), task)


@pytest.mark.parametrize(
    "parameters",
    [{"roles": []}, {"roles": "worker"}, {"processes": 0}, {"port": 1}],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(parameters: dict[str, Any]) -> None:
    assert len(parameter_problems(ID, parameters)) == 1


@pytest.mark.process
def test_tasks_meet_at_a_port_that_no_other_task_or_program_has() -> None:
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "distributed"}]}
    plans = all_plans(build(job(worker={"instances": 2}, extras=extras)))
    ports = [port for plan in plans.values() for each in plan.ports.values() for port in each]
    assert len(ports) == len(set(ports)) == 6
    assert all(plan.ports.keys() == {"ssh", "http", "distributed"} for plan in plans.values())


@pytest.mark.process
def test_on_openpai_tasks_meet_at_a_port_that_the_platform_knows(tmp_path: Path, tell: Telling) -> None:
    pod = PodFolder(tmp_path, **framework_variables("worker", 1), USER_CMD="true")
    given = pod_job(worker={"instances": 2}, extras={USES: [{"plugin": "distributed"}]})
    with api_server(framework(given)) as url:
        ended = pod.init(KUBE_APISERVER_ADDRESS=url)
    assert ended.returncode == 0, ended.stderr
    assert pod.plan["ports"].keys() == {"ssh", "http"}
    told = json.loads((pod.volume / "runtime.d/shared.json").read_text())["peers"]
    found = tell({"worker": 2}, "worker", 1, told)
    assert found["JAX_COORDINATOR_ADDRESS"] == f"10.0.0.0:{told['PAI_PORT_LIST_worker_0_http']}"


@pytest.mark.process
def test_one_line_in_a_job_is_enough(tmp_path: Path) -> None:
    ended = cli("run", EXAMPLES / "tensorflow.yaml", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    lines = dict(line.split(" | ", 1) for line in ended.stdout.splitlines() if " rank " in f" {line} ")
    told = {task: json.loads(line.partition("TF_CONFIG=")[2]) for task, line in lines.items()}
    assert {task: f"{each['task']['type']}/{each['task']['index']}" for task, each in told.items()} == {
        task: task for task in ("chief/0", "worker/0", "worker/1", "ps/0")
    }
    listening = [address for each in told["ps/0"]["cluster"].values() for address in each]
    assert len(set(listening)) == 4
    assert "chief/0 | ps-0 slots=1" in ended.stdout


_LEADER = """\
import os, socket
with socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as server:
    print("met", *(server.accept()[0].recv(9).decode() for _ in range(2)))
"""
_FOLLOWER = """\
import os, signal, socket, time
attempt, until = os.environ["FC_TASK_ATTEMPT_ID"], time.monotonic() + 60
while True:
    try:
        leader = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        break
    except ConnectionRefusedError:
        if time.monotonic() > until:
            raise
        time.sleep(0.05)
leader.sendall(attempt.encode())
if attempt == "0":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
def test_a_worker_that_is_killed_and_retried_alone_meets_the_others_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/0.py").write_text(_LEADER)
    (tmp_path / "code/1.py").write_text(_FOLLOWER)
    uses = {USES: [{"plugin": "distributed"}]}
    worker = {"instances": 2, "taskRetryCount": 1, "commands": ["python3 $RANK.py"]}
    document = job(extras={**uses, "gangAllocation": False, "code": "code"}, worker=worker)
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "worker/0 | met 0 1" in ended.stdout
    assert "retrying it (1 of 1)" in ended.stderr


@pytest.mark.process
def test_the_examples_are_valid_without_a_warning() -> None:
    assert [problem for path in sorted(EXAMPLES.glob("*.yaml")) for problem in validated(path)] == []


@pytest.mark.process
def test_it_can_be_a_prerequisite_too(tmp_path: Path) -> None:
    prerequisite = {"name": "group", "type": "script", "plugin": "distributed", "roles": ["worker"]}
    worker = {"prerequisites": ["group"], "commands": ['echo "$RANK of $WORLD_SIZE"']}
    document = job(prerequisites=[prerequisite], worker=worker)
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert (ended.returncode, ended.stdout) == (0, "0 of 1\n"), ended.stderr
