"""``pai-runtime init`` in a pod that an engine has made from a job: all it knows is what was given to it."""

import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from pai_runtime.job.overrides import Overrides
from pai_task.code_archive import code_digest
from tests.all_plugins import EXAMPLE, repository
from tests.init_harness import CHANGED, CMD, JOB, PEERS, RUN_SECRET, USES, PodFolder, pod_job, run_pod

pytestmark = pytest.mark.process


def variables(pod: PodFolder) -> dict[str, str]:
    shared = json.loads((pod.volume / "runtime.d" / "shared.json").read_text())
    own = {each["name"]: each["value"] for each in pod.plan["environment"]}
    return {**shared["platform"], **shared["peers"], **own}


@pytest.mark.parametrize("gang", [True, False])
def test_the_task_is_planned_from_the_job_with_the_addresses_of_its_peers(
    tmp_path: Path, *, gang: bool
) -> None:
    pod = run_pod(tmp_path, gang=gang, POD_IP="127.0.0.1")
    done = pod.init()
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert pod.plan["command"]["script"] == "echo job \0key\0\n"
    assert (pod.plan["role"], pod.plan["index"]) == ("worker", 1)
    assert pod.plan["instances"] == {"worker": 2, "ps_server": 1}
    assert pod.handed_over == {"key": "sesame"}
    assert "sesame" not in pod.log + done.stderr
    assert variables(pod)["PAI_HOST_IP_worker_1"] == "127.0.0.1"
    assert variables(pod)["PAI_HOST_IP_ps_server_0"] in ("127.0.0.1", "::1")


def test_a_job_that_is_secret_comes_with_the_secrets_and_is_not_left_to_the_task(tmp_path: Path) -> None:
    pod = run_pod(tmp_path)
    pod.mount("secrets/job_config.yaml", JOB)
    (tmp_path / "mounted" / "config" / "job_config.yaml").unlink()
    assert pod.init().returncode == 0, pod.log
    assert pod.plan["command"]["script"] == "echo job \0key\0\n"
    assert not (pod.volume / "runtime.d" / "job_config.yaml").exists()


def test_every_variable_of_the_platform_exists(tmp_path: Path) -> None:
    pod = run_pod(tmp_path, POD_IP="10.0.0.7")
    assert pod.init().returncode == 0, pod.log
    found = variables(pod)
    for name, value in {
        "PAI_FRAMEWORK_NAME": "run",
        "PAI_JOB_NAME": "test",
        "PAI_USER_NAME": "alice",
        "PAI_USERNAME": "alice",
        "PAI_VIRTUAL_CLUSTER": "research",
        "PAI_DEFAULT_FS_URI": "",
        "PAI_TASK_ROLE_COUNT": "2",
        "PAI_TASK_ROLES_NUM": "2",
        "PAI_JOB_TASK_ROLE_COUNT": "2",
        "PAI_TASK_ROLE_LIST": "worker,ps_server",
        "PAI_JOB_TASK_ROLE_LIST": "worker,ps_server",
        "PAI_TASKS_NUM": "3",
        "PAI_JOB_TASK_COUNT": "3",
        "PAI_TASK_ROLE_TASK_COUNT_worker": "2",
        "PAI_TASK_ROLE_TASK_COUNT_ps_server": "1",
        "PAI_TASK_ROLE_TASK_COUNT_psserver": "1",
        "PAI_RESOURCE_worker": "0,1,100,0",
        "PAI_MIN_FAILED_TASK_COUNT_worker": "1",
        "PAI_MIN_SUCCEEDED_TASK_COUNT_worker": "2",
        "PAI_CURRENT_TASK_ROLE_NAME": "worker",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "1",
        "PAI_TASK_INDEX": "1",
        "NVIDIA_VISIBLE_DEVICES": "none",
        "FC_FRAMEWORK_NAMESPACE": "research",
        "FC_FRAMEWORK_NAME": "run",
        "FC_FRAMEWORK_UID": "jobset-uid",
        "FC_FRAMEWORK_ATTEMPT_ID": "2",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
        "FC_TASK_ATTEMPT_ID": "3",
        "FC_TASK_ATTEMPT_INSTANCE_UID": "3_pod-uid",
        "FC_POD_NAME": "run-worker-0-1-x7k2p",
        "FC_POD_UID": "pod-uid",
        "PAI_HOST_IP_worker_1": "10.0.0.7",
        "PAI_PORT_LIST_worker_0_http": "15001",
        "PAI_worker_0_http_PORT": "15001",
        "PAI_TASK_ROLE_INSTANCES": "worker:0,worker:1,ps_server:0",
        "PAI_CURRENT_CONTAINER_IP": "10.0.0.7",
        "PAI_CURRENT_CONTAINER_PORT": "15001",
        "PAI_CONTAINER_HOST_IP": "10.0.0.7",
        "PAI_CONTAINER_HOST_PORT": "15001",
        "PAI_CONTAINER_SSH_PORT": "15000",
        "PAI_CONTAINER_HOST_http_PORT_LIST": "15001",
        "PAI_CONTAINER_HOST_PORT_LIST": "ssh:15000;http:15001;",
    }.items():
        assert (name, found.get(name)) == (name, value)
    for name in (
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
        "FC_TASKROLE_UID",
        "FC_TASK_UID",
        "FC_CONFIGMAP_NAME",
        "FC_CONFIGMAP_UID",
        "PAI_HOST_IP_worker_0",
        "PAI_HOST_IP_psserver_0",
        "PAI_TASK_ROLE_worker_HOST_LIST",
    ):
        assert found[name]


def test_what_the_cluster_does_not_say_is_invented(tmp_path: Path) -> None:
    unsaid = ("PAI_POD_NAME", "PAI_POD_UID", "PAI_JOBSET_UID", "PAI_JOB_ATTEMPT", "PAI_TASK_ATTEMPT")
    pod = run_pod(tmp_path)
    pod.environment.update(dict.fromkeys(unsaid, ""))
    assert pod.init().returncode == 0, pod.log
    found = variables(pod)
    assert (found["FC_FRAMEWORK_ATTEMPT_ID"], found["FC_TASK_ATTEMPT_ID"]) == ("0", "0")
    assert all(found[name] for name in ("FC_POD_UID", "FC_POD_NAME", "FC_FRAMEWORK_UID"))


def test_a_pod_in_the_place_of_an_evicted_one_is_another_attempt(tmp_path: Path) -> None:
    pod = run_pod(tmp_path, gang=False, PAI_TASK_ATTEMPT="1", PAI_TASK_EVICTIONS="2")
    assert pod.init().returncode == 0, pod.log
    assert variables(pod)["FC_TASK_ATTEMPT_ID"] == "3"


def test_what_the_command_line_changes_of_the_job_holds(tmp_path: Path) -> None:
    pod = run_pod(tmp_path)
    pod.mount("config/overrides.json", json.dumps(CHANGED))
    assert pod.init().returncode == 0, pod.log
    assert pod.plan["command"]["script"] == "echo other \0key\0\n"
    assert pod.plan["instances"]["worker"] == 3
    assert pod.plan["strictCallbacks"] is True
    assert variables(pod)["MODE"] == "fast"


def test_the_secret_of_the_run_is_what_the_engine_gives_to_all_tasks(tmp_path: Path) -> None:
    ssh = {"plugin": "ssh", "parameters": {"jobssh": True}}
    job = pod_job(worker={"instances": 2}, extras={USES: [ssh, CMD]})
    pod = run_pod(tmp_path, job, {"worker": "localhost"})
    assert pod.init().returncode == 0, pod.log
    assert pod.handed_over["\0run"] == RUN_SECRET
    assert RUN_SECRET not in pod.log


def test_peers_that_are_missing_end_init_with_their_names(tmp_path: Path) -> None:
    pod = run_pod(
        tmp_path,
        hosts={"worker": "localhost", "ps_server": "missing-{index}.invalid"},
        gang=True,
        seconds=0.5,
    )
    done = pod.init()
    assert done.returncode == 251
    assert "ps_server/0" in pod.log
    assert "worker/0" not in pod.log


def test_without_gang_a_peer_that_is_missing_is_known_by_its_name(tmp_path: Path) -> None:
    pod = run_pod(tmp_path, hosts={"worker": "localhost", "ps_server": "missing-{index}.invalid"})
    assert pod.init().returncode == 0, pod.log
    assert variables(pod)["PAI_HOST_IP_ps_server_0"] == "missing-0.invalid"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("peers.json", "{", "peers.json"),
        ("peers.json", json.dumps({"peersVersion": 9}), "peersVersion"),
        ("peers.json", json.dumps({**PEERS.to_json(), "hosts": {"worker": "localhost"}}), "ps_server"),
        ("overrides.json", "[]", "overrides.json"),
        ("overrides.json", json.dumps({**CHANGED, "parameters": {"word": 1}}), "overrides.json"),
        ("overrides.json", json.dumps({**CHANGED, "instances": {"worker": "2"}}), "overrides.json"),
        ("overrides.json", json.dumps({**CHANGED, "environment": {"MODE": 1}}), "overrides.json"),
        ("overrides.json", json.dumps(Overrides({"none": "1"}).to_json()), "none"),
        ("job_config.yaml", "[]", "job_config.yaml"),
    ],
)
def test_what_is_wrong_in_what_is_given_is_said(tmp_path: Path, file: str, content: str, said: str) -> None:
    pod = run_pod(tmp_path)
    pod.mount(f"config/{file}", content)
    assert pod.init().returncode == 1
    assert said in pod.log
    assert "Traceback" not in pod.log


def test_messages_name_the_file_of_the_job_as_its_user_calls_it(tmp_path: Path) -> None:
    pod = run_pod(tmp_path)
    callbacks = [{"event": "taskStarts", "commands": ["true"]}]
    plugin = {"plugin": "cmd", "parameters": {"callbacks": callbacks}}
    pod.mount("config/job_config.yaml", {**JOB, "extras": {"com.microsoft.pai.runtimeplugin": [plugin]}})
    pod.mount("config/peers.json", json.dumps(replace(PEERS, job_file="demo.yaml").to_json()))
    assert pod.init().returncode == 0, pod.log
    assert {each["source"].partition(":")[0] for each in pod.plan["uses"]} == {"demo.yaml"}
    pod.mount("config/job_config.yaml", "[]")
    assert pod.init().returncode == 1
    assert "demo.yaml:1" in pod.log
    assert "job_config.yaml" not in pod.log


@pytest.mark.parametrize("attempt", ["-1", "x", "1" * 20])
def test_an_attempt_that_is_no_number_is_refused(tmp_path: Path, attempt: str) -> None:
    pod = run_pod(tmp_path, PAI_JOB_ATTEMPT=attempt)
    assert pod.init().returncode == 1
    assert "PAI_JOB_ATTEMPT" in pod.log


def test_the_code_of_the_job_is_where_its_task_starts(tmp_path: Path) -> None:
    archive = tmp_path / "mounted" / "code" / "0" / "code.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as packed:
        member = tarfile.TarInfo("pack/train.py")
        member.size, member.mode = 5, 0o755
        packed.addfile(member, io.BytesIO(b"print"))
    pod = run_pod(tmp_path, PAI_CODE_DIGEST=code_digest(archive.read_bytes()))
    assert pod.init().returncode == 0, pod.log
    code = pod.volume / "code"
    assert (code / "pack" / "train.py").read_bytes() == b"print"
    modes = [(code / each).stat().st_mode & 0o777 for each in ("", "pack", "pack/train.py")]
    assert modes == [0o777, 0o777, 0o777]


@pytest.mark.needs("openssh-client", "util-linux")
def test_a_root_without_capabilities_prepares_a_job_with_all_plugins(tmp_path: Path) -> None:
    job = EXAMPLE.read_text("utf-8").replace("/path/to/model", str(repository(tmp_path)))
    pod = run_pod(tmp_path, job, {"worker": "localhost", "check": "localhost"}, PAI_TASK_INDEX="0")
    for secret in (pod.mounted / "secrets").iterdir():
        secret.chmod(0o400)
    pod.volume.chmod(0o777)
    bare = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
    with pod.start(wrap=() if os.geteuid() else bare) as init:
        _, errors = init.communicate()
    assert init.returncode == 0, errors
    assert "[ERROR]" not in errors
    assert "[WARNING]" not in errors
    made = pod.volume / "runtime.d"
    assert any(made.rglob("private/ssh/key"))
    for path in (made, made / "work", made / "plan.json", made / "private" / "ssh"):
        assert path.stat().st_mode & 0o006 == 0o006
