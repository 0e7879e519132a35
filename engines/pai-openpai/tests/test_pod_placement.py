"""Where the tasks of a job are, as a pod learns it, and the variables of its plan that say so."""

import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pai_document.problems import Problems
from pai_openpai.framework import BadFramework, Framework, read_framework
from pai_openpai.placement import framework_placement, framework_task
from pai_pod.placement import UnknownTask, own_task, single_placement
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.model import Job
from pai_runtime.plan.build import Planner
from pai_runtime.plan.environment import JobEnvironment, Placement
from tests.framework_object import Pod, framework_object, hashed, role_status, task_role
from tests.job_harness import build, checked_roles
from tests.support import job

FOLDER = "/usr/local/pai/runtime.d"
WORKERS = (
    Pod("2320bc0d-db98-4969-965f-077953c6aee9", "10.0.0.1"),
    Pod("9dd75861-f050-4a24-9cd6-b48a180571d2", "10.0.0.2"),
)
SERVER = Pod("07843b4b-bf33-4f0d-96bd-0918b499e32d", "10.0.0.3")
OLDER = {
    "mpi": {"start": 20000, "count": 3},
    "ssh": {"start": 21000, "count": 1},
    "http": {"start": 22000, "count": 1},
}
AS_WORKER = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1", "FC_POD_UID": WORKERS[1].uid or ""}
AS_SERVER = {"FC_TASKROLE_NAME": "psserver", "FC_TASK_INDEX": "0", "FC_POD_UID": SERVER.uid or ""}


def job_of(**instances: int) -> Job:
    """A job of these task roles."""
    role = job()["taskRoles"]["worker"]
    return build(job(taskRoles={name: {**role, "instances": number} for name, number in instances.items()}))


def framework(
    workers: Sequence[Pod] = WORKERS,
    server: Pod = SERVER,
    ports: Mapping[str, Any] | None = None,
) -> Framework:
    """Two workers and one ``ps_server``, as FrameworkController knows them."""
    roles = [task_role("worker", 2, ports or hashed(tcp=2)), task_role("psserver", 1, ports or hashed())]
    statuses = [role_status("psserver", [server]), role_status("worker", workers)]
    return read_framework(json.dumps(framework_object(roles, statuses)).encode())


JOB = job_of(worker=2, ps_server=1)


def variables(where: Placement, role: str, index: int, of: Job = JOB) -> dict[str, str]:
    """The variables in the plan of a task."""
    environment = JobEnvironment(of, where)
    own = {each.name: each.value for each in environment.own(of.roles[role], index)}
    return {**environment.shared.platform, **environment.shared.peers, **own}


def in_pod(environment: Mapping[str, str], known: Framework | None = None) -> dict[str, str]:
    """The variables in the plan of the task that has this environment."""
    name = framework_task(JOB, environment)
    return variables(framework_placement(known or framework(), JOB, environment, FOLDER), *name)


# The ports were calculated by md5sum and the arithmetic of a shell.
PEERS = {
    "PAI_HOST_IP_worker_0": "10.0.0.1",
    "PAI_HOST_IP_worker_1": "10.0.0.2",
    "PAI_HOST_IP_ps_server_0": "10.0.0.3",
    "PAI_HOST_IP_psserver_0": "10.0.0.3",
    "PAI_PORT_LIST_worker_0_tcp": "33652,17505",
    "PAI_PORT_LIST_worker_0_ssh": "26055",
    "PAI_PORT_LIST_worker_0_http": "25895",
    "PAI_PORT_LIST_worker_1_tcp": "27117,36884",
    "PAI_PORT_LIST_worker_1_ssh": "38326",
    "PAI_PORT_LIST_worker_1_http": "19320",
    "PAI_PORT_LIST_ps_server_0_ssh": "21878",
    "PAI_PORT_LIST_psserver_0_ssh": "21878",
    "PAI_PORT_LIST_ps_server_0_http": "18010",
    "PAI_PORT_LIST_psserver_0_http": "18010",
    "PAI_worker_0_tcp_PORT": "33652,17505",
    "PAI_worker_0_ssh_PORT": "26055",
    "PAI_worker_0_http_PORT": "25895",
    "PAI_worker_1_tcp_PORT": "27117,36884",
    "PAI_worker_1_ssh_PORT": "38326",
    "PAI_worker_1_http_PORT": "19320",
    "PAI_ps_server_0_ssh_PORT": "21878",
    "PAI_psserver_0_ssh_PORT": "21878",
    "PAI_ps_server_0_http_PORT": "18010",
    "PAI_psserver_0_http_PORT": "18010",
    "PAI_TASK_ROLE_worker_HOST_LIST": "10.0.0.1:25895,10.0.0.2:19320",
    "PAI_TASK_ROLE_ps_server_HOST_LIST": "10.0.0.3:18010",
    "PAI_TASK_ROLE_psserver_HOST_LIST": "10.0.0.3:18010",
    "PAI_TASK_ROLE_INSTANCES": "worker:0,worker:1,ps_server:0",
}
OF_WORKER = {
    "PAI_CURRENT_CONTAINER_IP": "10.0.0.2",
    "PAI_CURRENT_CONTAINER_PORT": "19320",
    "PAI_CONTAINER_HOST_IP": "10.0.0.2",
    "PAI_CONTAINER_HOST_PORT": "19320",
    "PAI_CONTAINER_SSH_PORT": "38326",
    "PAI_CONTAINER_HOST_tcp_PORT_LIST": "27117,36884",
    "PAI_CONTAINER_HOST_ssh_PORT_LIST": "38326",
    "PAI_CONTAINER_HOST_http_PORT_LIST": "19320",
    "PAI_CONTAINER_HOST_PORT_LIST": "tcp:27117,36884;ssh:38326;http:19320;",
}
OF_SERVER = {
    "PAI_CURRENT_CONTAINER_IP": "10.0.0.3",
    "PAI_CURRENT_CONTAINER_PORT": "18010",
    "PAI_CONTAINER_HOST_IP": "10.0.0.3",
    "PAI_CONTAINER_HOST_PORT": "18010",
    "PAI_CONTAINER_SSH_PORT": "21878",
    "PAI_CONTAINER_HOST_ssh_PORT_LIST": "21878",
    "PAI_CONTAINER_HOST_http_PORT_LIST": "18010",
    "PAI_CONTAINER_HOST_PORT_LIST": "ssh:21878;http:18010;",
}


@pytest.mark.parametrize(
    ("environment", "own"), [(AS_WORKER, OF_WORKER), (AS_SERVER, OF_SERVER)], ids=["worker", "ps_server"]
)
def test_a_plan_has_what_the_runtime_tells_a_task_and_nothing_that_the_platform_tells(
    environment: Mapping[str, str], own: Mapping[str, str]
) -> None:
    assert in_pod(environment) == {**PEERS, **own}


def test_tasks_of_an_older_framework_have_their_ports_one_after_the_other() -> None:
    told = in_pod(AS_WORKER, framework(ports=OLDER))
    assert told["PAI_PORT_LIST_worker_0_mpi"] == "20000,20001,20002"
    assert told["PAI_CONTAINER_HOST_PORT_LIST"] == "mpi:20003,20004,20005;ssh:21001;http:22001;"


@pytest.mark.parametrize(
    ("ports", "http"),
    [
        ({"ports": {"tcp": {"count": 1}}}, 19320),
        ({"schedulePortStart": 15000, "schedulePortEnd": 40000, "ports": {"http": {"count": 1}}}, 19320),
        ({"schedulePortStart": 20000, "schedulePortEnd": 20001, "ports": {}}, 20000),
        ({"portStart": 20000, "portEnd": 40000, "ports": OLDER}, 22001),
        ({**OLDER, "ports": {"start": 30000, "count": 1}}, 22001),
    ],
    ids=["no range", "the usual range", "one port", "older with a range", "older with a label named ports"],
)
def test_all_forms_of_a_port_spec_are_understood(ports: Mapping[str, Any], http: int) -> None:
    assert in_pod(AS_WORKER, framework(ports=ports))["PAI_CONTAINER_HOST_PORT"] == str(http)


def test_ports_that_collide_are_those_that_all_others_calculate() -> None:
    told = in_pod(AS_WORKER, framework(ports=hashed(20000, 20001, tcp=2)))
    assert told["PAI_CONTAINER_HOST_PORT_LIST"] == "tcp:20000,20000;ssh:20000;http:20000;"


def test_of_a_task_whose_pod_is_not_known_nothing_is_told_but_that_it_is() -> None:
    told = in_pod(AS_WORKER, framework(server=Pod()))
    lists = {"PAI_TASK_ROLE_ps_server_HOST_LIST", "PAI_TASK_ROLE_psserver_HOST_LIST"}
    assert PEERS.keys() - told.keys() == {name for name in PEERS if "server" in name} - lists
    assert {told[name] for name in lists} == {""}
    assert told["PAI_TASK_ROLE_INSTANCES"] == PEERS["PAI_TASK_ROLE_INSTANCES"]


def test_of_a_task_whose_address_is_not_known_the_ports_are_told() -> None:
    told = in_pod(AS_WORKER, framework([Pod(WORKERS[0].uid), WORKERS[1]]))
    assert PEERS.keys() - told.keys() == {"PAI_HOST_IP_worker_0"}
    assert told["PAI_TASK_ROLE_worker_HOST_LIST"] == "10.0.0.2:19320"


@pytest.mark.parametrize(
    "told",
    [Pod(), Pod(WORKERS[1].uid), Pod("11111111", "10.9.9.9")],
    ids=["nothing", "no address", "the pod before"],
)
def test_a_pod_knows_its_own_ports_and_address_whatever_the_framework_tells(told: Pod) -> None:
    late = framework([WORKERS[0], told])
    assert in_pod({**AS_WORKER, "POD_IP": "10.0.0.2"}, late) == {**PEERS, **OF_WORKER}


def test_a_pod_without_a_uid_is_told_so_where_the_framework_does_not_know_it() -> None:
    environment = {name: value for name, value in AS_WORKER.items() if name != "FC_POD_UID"}
    assert in_pod(environment) == {**PEERS, **OF_WORKER}
    with pytest.raises(UnknownTask, match="FC_POD_UID"):
        in_pod(environment, framework([WORKERS[0], Pod()]))


def calculated(tasks: int, own: int) -> dict[str, str]:
    """What the task `own` of so many is told, calculated from the rule alone."""
    found: dict[str, str] = {}
    instances, hosts = [], []
    for index in range(tasks):
        ports = {}
        for label, count in (("tcp", 2), ("ssh", 1), ("http", 1)):
            numbers = []
            for number in range(count):
                digest = hashlib.md5(f"[uid-{index}][{label}][{number}]".encode()).hexdigest()  # noqa: S324
                parts = (digest[0:12], digest[12:24], digest[24:32])
                numbers.append(str(sum(int(part, 16) for part in parts) % 25000 + 15000))
            ports[label] = ",".join(numbers)
            for name in ("my_role", "myrole"):
                found[f"PAI_PORT_LIST_{name}_{index}_{label}"] = ports[label]
                found[f"PAI_{name}_{index}_{label}_PORT"] = ports[label]
            if index == own:
                found[f"PAI_CONTAINER_HOST_{label}_PORT_LIST"] = ports[label]
        host = f"10.1.{index // 256}.{index % 256}"
        if index == own:
            found["PAI_CURRENT_CONTAINER_IP"] = found["PAI_CONTAINER_HOST_IP"] = host
            found["PAI_CURRENT_CONTAINER_PORT"] = found["PAI_CONTAINER_HOST_PORT"] = ports["http"]
            found["PAI_CONTAINER_SSH_PORT"] = ports["ssh"]
            listed = f"tcp:{ports['tcp']};ssh:{ports['ssh']};http:{ports['http']};"
            found["PAI_CONTAINER_HOST_PORT_LIST"] = listed
        found[f"PAI_HOST_IP_my_role_{index}"] = found[f"PAI_HOST_IP_myrole_{index}"] = host
        instances.append(f"my_role:{index}")
        hosts.append(f"{host}:{ports['http']}")
    for name in ("my_role", "myrole"):
        found[f"PAI_TASK_ROLE_{name}_HOST_LIST"] = ",".join(hosts)
    found["PAI_TASK_ROLE_INSTANCES"] = ",".join(instances)
    return found


@pytest.mark.parametrize("tasks", [1, 10_000])
def test_each_task_of_many_is_told_where_all_are(tasks: int) -> None:
    pods = [Pod(f"uid-{index}", f"10.1.{index // 256}.{index % 256}") for index in range(tasks)]
    roles, statuses = [task_role("myrole", tasks, hashed(tcp=2))], [role_status("myrole", pods)]
    text = json.dumps(framework_object(roles, statuses, compressed=True)).encode()
    whole, own = job_of(my_role=tasks), tasks - 1
    environment = {"FC_TASKROLE_NAME": "myrole", "FC_TASK_INDEX": str(own), "FC_POD_UID": f"uid-{own}"}
    where = framework_placement(read_framework(text), whole, environment, FOLDER)
    assert variables(where, "my_role", own, whole) == calculated(tasks, own)


@pytest.mark.process
def test_a_plan_for_a_pod_has_the_variables_that_its_placement_tells_and_no_others() -> None:
    roles, problems = checked_roles(JOB)
    where = framework_placement(framework(), JOB, AS_WORKER, FOLDER)
    own = framework_task(JOB, AS_WORKER)
    plan = Planner(JOB, Host(NO_POLICY), roles, where, Problems()).plans(own)[own]
    assert not problems
    assert {each.name: each.value for each in plan.variables()} == {**PEERS, **OF_WORKER}
    assert plan.folder == FOLDER
    assert plan.ports == {"tcp": (27117, 36884), "ssh": (38326,), "http": (19320,)}


def test_the_run_and_the_user_are_those_that_the_platform_tells_and_all_folders_that_of_the_pod() -> None:
    told = {**AS_WORKER, "PAI_FRAMEWORK_NAME": "alice~test", "PAI_USER_NAME": "alice"}
    where = framework_placement(framework(), JOB, told, FOLDER)
    assert (where.framework, where.user) == ("alice~test", "alice")
    assert {place.folder for place in where.places.values()} == {FOLDER}


@pytest.mark.parametrize(
    ("instances", "message"),
    [
        ({"worker": 2}, r"spec\.taskRoles\[1\]\.name: .*psserver"),
        ({"worker": 2, "ps_server": 1, "more": 1}, r"spec\.taskRoles: .*more"),
        ({"worker": 3, "ps_server": 1}, r"spec\.taskRoles\[0\]\.taskNumber: .*3.*2"),
        ({"worker": 2, "PS_Server": 2}, r"spec\.taskRoles\[1\]\.taskNumber: .*2.*1"),
    ],
    ids=["a role less", "a role more", "a task more", "a task more in another spelling"],
)
def test_a_framework_of_another_job_is_refused(instances: Mapping[str, int], message: str) -> None:
    with pytest.raises(BadFramework, match=message):
        framework_placement(framework(), job_of(**instances), AS_WORKER, FOLDER)


@pytest.mark.parametrize(
    ("environment", "task"),
    [
        (AS_SERVER, ("ps_server", 0)),
        ({"FC_TASKROLE_NAME": "psserver", "PAI_TASK_INDEX": "0"}, ("ps_server", 0)),
        ({"PAI_CURRENT_TASK_ROLE_NAME": "ps_server", "PAI_TASK_INDEX": "0"}, ("ps_server", 0)),
        ({"PAI_CURRENT_TASK_ROLE_NAME": "ps_server"}, ("ps_server", 0)),
        (
            {"PAI_CURRENT_TASK_ROLE_NAME": "worker", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "1"},
            ("worker", 1),
        ),
        ({**AS_WORKER, "PAI_CURRENT_TASK_ROLE_NAME": "ps_server", "PAI_TASK_INDEX": "0"}, ("worker", 1)),
    ],
)
def test_a_pod_is_the_task_that_its_environment_tells(
    environment: Mapping[str, str], task: tuple[str, int]
) -> None:
    assert framework_task(JOB, environment) == task


@pytest.mark.parametrize(
    ("environment", "variable"),
    [
        ({}, "FC_TASKROLE_NAME"),
        ({"FC_TASK_INDEX": "0"}, "FC_TASKROLE_NAME"),
        ({"FC_TASKROLE_NAME": "other", "FC_TASK_INDEX": "0"}, "FC_TASKROLE_NAME"),
        ({"PAI_CURRENT_TASK_ROLE_NAME": "\x1b[2J"}, "PAI_CURRENT_TASK_ROLE_NAME"),
        ({"FC_TASKROLE_NAME": "worker"}, "FC_TASK_INDEX"),
        ({"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "2"}, "FC_TASK_INDEX"),
        ({"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "-1"}, "FC_TASK_INDEX"),
        ({"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "²"}, "FC_TASK_INDEX"),
        ({"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1" * 10_000}, "FC_TASK_INDEX"),
        ({"FC_TASKROLE_NAME": "worker", "PAI_TASK_INDEX": "x"}, "PAI_TASK_INDEX"),
    ],
)
def test_a_pod_that_is_no_task_of_the_job_is_told_which_variable_is_wrong(
    environment: Mapping[str, str], variable: str
) -> None:
    with pytest.raises(UnknownTask, match=f"^{variable}: ") as caught:
        framework_task(JOB, environment)
    assert str(caught.value).isprintable()


def test_the_variables_of_framework_controller_mean_nothing_where_it_is_not() -> None:
    with pytest.raises(UnknownTask, match=r"^PAI_CURRENT_TASK_ROLE_NAME: "):
        own_task(JOB, AS_WORKER)
    assert own_task(JOB, {**AS_WORKER, "PAI_CURRENT_TASK_ROLE_NAME": "ps_server"}) == ("ps_server", 0)


ALONE = job_of(ps_server=1)


def alone(**environment: str) -> Placement:
    return single_placement(ALONE, environment, FOLDER)


@pytest.mark.parametrize("address", ["10.0.0.7", "fd00::7"])
def test_a_pod_without_a_framework_is_its_job_s_only_task(address: str) -> None:
    where = alone(POD_IP=address)
    told = variables(where, "ps_server", 0, ALONE)
    assert list(where.places) == [("ps_server", 0)]
    assert told["PAI_HOST_IP_psserver_0"] == told["PAI_CONTAINER_HOST_IP"] == address
    assert told["PAI_TASK_ROLE_INSTANCES"] == "ps_server:0"
    assert "PAI_TASK_INDEX" not in told


def test_a_pod_that_is_told_no_address_has_one_of_the_machine_or_none() -> None:
    host = alone(POD_IP="nonsense").places["ps_server", 0].host
    if host is not None:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as here:
            here.bind((host, 0))


def test_a_pod_without_a_framework_has_the_same_ports_each_time_and_another_pod_has_others() -> None:
    role = {**job()["taskRoles"]["worker"]}
    role["resourcePerInstance"] = {**role["resourcePerInstance"], "ports": {"tcp": 1000}}
    many = build(job(taskRoles={"worker": role}))

    def ports(**environment: str) -> list[int]:
        by_label = single_placement(many, environment, FOLDER).places["worker", 0].ports
        assert {label: len(each) for label, each in by_label.items()} == {"tcp": 1000, "ssh": 1, "http": 1}
        return [port for each in by_label.values() for port in each]

    first, again, other = ports(POD_NAME="one"), ports(POD_NAME="one"), ports(POD_NAME="two")
    assert first == again != other
    assert len(set(first)) == len(first)
    assert all(15000 <= port < 40000 for port in (*first, *other))
    assert ports() == ports(POD_NAME=os.uname().nodename)
    assert ports(POD_NAME="\udcff")


def test_a_pod_without_a_framework_cannot_be_one_of_several_tasks() -> None:
    with pytest.raises(UnknownTask, match="frameworkParser"):
        single_placement(JOB, {"PAI_CURRENT_TASK_ROLE_NAME": "ps_server"}, FOLDER)
