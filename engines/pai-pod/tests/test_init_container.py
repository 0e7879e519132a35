"""``pai-runtime init``: from what a platform gives a pod to what its task container takes over."""

import json
import os
import shlex
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_pod.init_steps import BUILT_IN
from pai_pod.steps import GROUP as STEPS
from pai_runtime.host.code import GROUP
from pai_task.exit_codes import CANNOT_RUN
from tests.init_harness import (
    CMD,
    PROPOSED,
    USES,
    PodFolder,
    api_server,
    config,
    folded,
    framework,
    framework_variables,
    pod_job,
)
from tests.plugin_factory import Made, Site, policy_rule, write_policy

pytestmark = pytest.mark.process

SSH = {"plugin": "ssh", "parameters": {"jobssh": True}}
JOB_KEY = {"key": "private", "pubKey": "public"}
_ALLOWED = {"id": "com.microsoft.pai.engine.pod", "distribution": "pai-pod", "versions": "*"}


def _init_plugins(*entries: Mapping[str, Any] | str) -> str:
    listed = [{"name": entry} if isinstance(entry, str) else entry for entry in entries]
    return yaml.safe_dump({"initPlugins": listed})


def _names(pod: PodFolder) -> set[str]:
    return {path.name for path in pod.volume.iterdir()}


@pytest.mark.parametrize("compressed", [False, True])
def test_a_pod_of_a_framework_gets_the_plan_of_its_task(tmp_path: Path, *, compressed: bool) -> None:
    given = pod_job(
        worker={"instances": 2, "commands": ["echo job"]},
        secrets="******",
        extras={USES: [CMD, {"plugin": "cmd", "parameters": {"callbacks": []}}]},
        prerequisites=[{"name": "data", "type": "data", "uri": "<% $secrets.from %>"}],
    )
    pod = PodFolder(tmp_path, **framework_variables("worker", 1), USER_CMD="echo <% $secrets.word %> it's")
    pod.mount("secrets/secrets.yaml", {"word": "sesame", "from": "there"})
    pod.mount("config/runtime-exit-spec.yaml", [{"containerExitCode": 20, "phrase": "Own", "patterns": []}])
    with api_server(framework(given, compressed=compressed)) as url:
        done = pod.init(KUBE_APISERVER_ADDRESS=url)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    plan = pod.plan
    assert (plan["role"], plan["index"], plan["instances"]) == ("worker", 1, {"worker": 2})
    assert plan["command"]["script"] == "echo \0word\0 it's\n"
    assert plan["folder"] == str(pod.volume / "runtime.d")
    assert [use["name"] for use in plan["uses"]] == ["cmd", "cmd", "failure_analysis", "hang"]
    assert [rule["rule"]["phrase"] for rule in plan["exitRules"]] == ["Own"]
    assert plan["listedCodes"] == [20, 255]
    peers = json.loads((pod.volume / "runtime.d" / "shared.json").read_text())["peers"]
    assert (peers["PAI_HOST_IP_worker_0"], peers["PAI_HOST_IP_worker_1"]) == ("10.0.0.0", "10.0.0.1")
    assert pod.handed_over == {"word": "sesame", "from": "there"}
    assert _names(pod) == {"bundle", "runtime", "runtime.d", "init.d", "logs"}
    assert "sesame" not in pod.log + done.stderr
    assert pod.log == done.stderr


def test_a_pod_without_a_framework_runs_what_its_variable_says(tmp_path: Path) -> None:
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=folded(PROPOSED), INIT_CONFIG="")
    done = pod.init()
    assert done.returncode == 0, done.stderr
    plan = pod.plan
    assert plan["command"]["script"] == "ls  -al\necho hi\n"
    assert [use["name"] for use in plan["uses"]] == ["ssh", "teamwise_storage", "failure_analysis", "hang"]
    assert sum(plan["instances"].values()) == 1
    assert "listedCodes" not in plan
    assert (pod.volume / "runtime.d" / "private" / "ssh" / "key").exists()


@pytest.mark.parametrize("folder", ["config", "volume"])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_configuration_is_found_however_it_is_mounted(tmp_path: Path, folder: str, kind: str) -> None:
    pod = PodFolder(tmp_path)
    if (
        folder == "volume"
    ):  # its mounts are kept, which takes a real one to show: not cleared is the same here
        pod.environment["PAI_CONFIG_DIR"] = str(tmp_path / "config")
        pod.mounted = tmp_path
    for name, content in (
        ("runtime_plugin.yaml", {"commands": ["echo <% $secrets.word %>"]}),
        ("init_plugins.yaml", {"initPlugins": [{"name": "jobConfig"}, {"name": "runtimePlugins"}]}),
        ("secret.yaml", {"word": "sesame"}),
    ):
        inner = f"/{name}" if kind == "directory" else ""
        pod.mount(f"config/{name}{inner}", content)
    assert pod.init().returncode == 0
    assert pod.handed_over == {"word": "sesame"}
    assert "portChecker" not in pod.log


def test_a_secret_may_be_mounted_with_a_file_for_each_key(tmp_path: Path) -> None:
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("echo <% $secrets.one %> <% $secrets.two %>"))
    for name in ("one", "two"):
        pod.mount(f"config/secrets.yaml/..data/{name}", f"{name}: [not yaml\n")
        (pod.mounted / "config" / "secrets.yaml" / name).symlink_to(f"..data/{name}")
    assert pod.init().returncode == 0, pod.log
    assert pod.handed_over == {"one": "one: [not yaml\n", "two": "two: [not yaml\n"}


@pytest.mark.parametrize(
    ("mounted", "tasks", "has_run"),
    [
        ({"user-extension-secrets/userExtensionSecrets.yaml": {"jobSSH": JOB_KEY}}, 2, True),
        ({"token-secrets/token": "the token"}, 2, True),
        ({}, 1, True),
        ({}, 2, False),
    ],
)
def test_the_secret_of_a_run_is_the_same_in_all_of_its_tasks_or_there_is_none(
    tmp_path: Path, mounted: Mapping[str, Any], tasks: int, *, has_run: bool
) -> None:
    found = []
    given = pod_job(worker={"instances": tasks}, extras={USES: [SSH]})
    with api_server(framework(given)) as url:
        for index in range(tasks):
            pod = PodFolder(tmp_path / str(index), **framework_variables("worker", index))
            for path, content in mounted.items():
                pod.mount(path, content)
            skipped = _init_plugins(*BUILT_IN[:4])
            assert pod.init(KUBE_APISERVER_ADDRESS=url, INIT_CONFIG=skipped).returncode == 0
            found.append(pod.handed_over.get("\0run"))
            assert "\0token" not in pod.handed_over  # nobody has asked for it
    assert len(set(found)) == 1
    assert (found[0] is not None) == has_run
    assert "private" not in str(found)


def test_an_init_step_that_fails_is_left_to_the_task_to_report(tmp_path: Path) -> None:
    git = {"plugin": "git", "parameters": {"repo_uri": f"file://{tmp_path}/nothing"}}
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true", uses=[git]))
    assert pod.init().returncode == 0
    events = [
        json.loads(line) for line in (pod.volume / "runtime.d" / "events.jsonl").read_text().splitlines()
    ]
    assert [event["outcome"] for event in events if event["event"] == "decided"] == ["setup-failed"]
    assert "[ERROR] an init step has failed" in pod.log


def _taken_port(pod: PodFolder) -> int:
    assert pod.init(INIT_CONFIG=_init_plugins("jobConfig", "runtimePlugins")).returncode == 0
    port: int = pod.plan["ports"]["http"][0]
    return port


def test_a_port_that_is_taken_is_named_by_its_label(tmp_path: Path) -> None:
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true"), POD_NAME=tmp_path.name)
    port = _taken_port(pod)
    with socket.create_server(("127.0.0.1", port)):
        done = pod.init()
    assert done.returncode == 253
    assert str(port) in pod.log
    assert "http" in pod.log
    assert pod.init().returncode == 0


@pytest.mark.parametrize(
    ("answer", "status", "changed", "code"),
    [
        ({}, 403, {}, 252),
        ({}, 404, {}, 252),
        ({"metadata": {"name": "framework"}}, 200, {}, 252),
        (
            "job",
            200,
            {"prerequisites": [{"name": "image", "type": "dockerimage", "uri": "example/UPPER"}]},
            254,
        ),
        ("job", 200, {"worker": {"commands": ["echo <% $secrets.none %>"]}}, 1),
        ("job", 200, {"extras": {USES: [{"plugin": "nowhere"}]}}, 1),
    ],
)
def test_the_exit_code_says_what_has_failed(
    tmp_path: Path, answer: Any, status: int, changed: Mapping[str, Any], code: int
) -> None:
    given = pod_job(**changed)
    given["prerequisites"] = given["prerequisites"][-1:]
    answer = framework(given) if answer == "job" else answer
    pod = PodFolder(tmp_path, **framework_variables("worker"))
    with api_server(answer, status) as url:
        done = pod.init(KUBE_APISERVER_ADDRESS=url)
    assert done.returncode == code, done.stderr
    assert pod.log == done.stderr
    assert "Traceback" not in pod.log
    assert "bundle" not in _names(pod)


@pytest.mark.parametrize(
    ("order", "named"),
    [
        (["frameworkParser"], "frameworkBarrier"),
        (["jobConfig"], "frameworkParser"),
        (["runtimePlugins"], "jobConfig"),
        (["portChecker"], "runtimePlugins"),
        (["imageChecker"], "jobConfig"),
        (["userCommandRender"], "jobConfig"),
        ([], "runtimePlugins"),
    ],
)
def test_an_init_plugin_says_which_must_come_before_it(tmp_path: Path, order: list[str], named: str) -> None:
    pod = PodFolder(tmp_path, **framework_variables("worker"), INIT_CONFIG=_init_plugins(*order))
    assert pod.init().returncode == 1
    assert named in pod.log.splitlines()[-1]


COMMAND = """\
#!/bin/sh
echo "printed in $(basename "$PWD") with $1"
echo 'FROM_INIT=a value' >> "$PAI_RUNTIME_DIR/env"
"""


def test_commands_run_in_order_in_their_directory_and_set_variables(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    (scripts / "pai").mkdir(parents=True)
    for name in ("step", "pai/step"):
        (scripts / name).write_text(COMMAND)
        (scripts / name).chmod(0o755)
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true"), PAI_INIT_DIR=str(scripts))
    first = {"name": "a", "command": "step one"}
    last = {"name": "b", "command": "pai/step \"$(cat framework.json || echo 'no file')\""}
    done = pod.init(INIT_CONFIG=_init_plugins(first, "jobConfig", "runtimePlugins", last))
    assert done.returncode == 0, done.stderr
    assert done.stderr == pod.log
    printed = [line for line in pod.log.splitlines() if line.startswith("printed")]
    assert printed == ["printed in scripts with one", "printed in scripts with no file"]
    values = [each["value"] for each in pod.plan["environment"] if each["name"] == "FROM_INIT"]
    assert values[-1] == "a value"


def test_a_command_can_get_the_framework_in_the_place_of_the_barrier(tmp_path: Path) -> None:
    document = tmp_path / "given.json"
    document.write_text(json.dumps(framework(pod_job())))
    barrier = {"name": "frameworkBarrier", "command": f"cp {shlex.quote(str(document))} framework.json"}
    plugins = _init_plugins(barrier, *BUILT_IN[1:4])
    pod = PodFolder(tmp_path, **framework_variables("worker"), INIT_CONFIG=plugins)
    assert pod.init().returncode == 0, pod.log
    assert pod.plan["role"] == "worker"


@pytest.mark.parametrize("in_place_of_the_barrier", [False, True])
def test_a_pod_of_a_job_that_was_submitted_again_does_not_run_the_new_one(
    tmp_path: Path, *, in_place_of_the_barrier: bool
) -> None:
    given = framework(pod_job())
    (tmp_path / "given.json").write_text(json.dumps(given))
    get = {"name": "get", "command": f"cp {shlex.quote(str(tmp_path))}/given.json framework.json"}
    first = get if in_place_of_the_barrier else BUILT_IN[0]
    variables = {**framework_variables("worker"), "FC_FRAMEWORK_UID": "former"}
    with api_server(given) as address:
        pod = PodFolder(
            tmp_path,
            **variables,
            KUBE_APISERVER_ADDRESS=address,
            INIT_CONFIG=_init_plugins(first, *BUILT_IN[1:]),
        )
        assert pod.init().returncode == (1 if in_place_of_the_barrier else 252)
    assert "metadata.uid" in pod.log.splitlines()[-1]
    assert "former" in pod.log.splitlines()[-1]


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_the_exit_code_of_a_command_ends_init(tmp_path: Path, command: str, code: int) -> None:
    plugins = _init_plugins({"name": "own", "command": command}, *BUILT_IN)
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true"), INIT_CONFIG=plugins)
    assert pod.init().returncode == code
    assert "init plugin 'own'" in pod.log.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_to_the_command_and_ends_init(tmp_path: Path, number: int) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = "trap 'echo told > told; exit 0' TERM INT; "
    command += f"echo > {shlex.quote(str(ready))}; while :; do sleep 0.01; done"
    plugins = _init_plugins({"name": "own", "command": command})
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true"), INIT_CONFIG=plugins)
    process = pod.start()
    ready.read_text()
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert (pod.volume / "init.d" / "told").exists()


def test_a_signal_ends_the_init_steps(tmp_path: Path, site: Site) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    waits = f"""
@hookimpl
def pai_init(use, task):
    import pathlib, time
    pathlib.Path({str(ready)!r}).write_text("")
    time.sleep(1000)
"""
    site.add("org.waits", waits, hooks=["pai_init"])
    pod = PodFolder(
        tmp_path, **site.environment(), RUNTIME_CONFIG=config("true", uses=[{"plugin": "org.waits"}])
    )
    process = pod.start()
    ready.read_text()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143
    assert "bundle" not in _names(pod)


INIT_PLUGIN = """
@hookimpl
def pai_init_container(container):
    print("printed by the plugin")
    container.say(f"{container.name}: {container.parameters['word']}")
    (container.folder / "made").write_text(container.environment["PAI_RUNTIME_DIR"])
"""


def test_an_installed_plugin_can_be_an_init_plugin(tmp_path: Path, site: Site) -> None:
    schema = {"type": "object", "required": ["word"]}
    site.add("org.own", INIT_PLUGIN, hooks=["pai_init_container"], parameters=schema)
    own = {"name": "org.own", "parameters": {"word": "spoken"}}
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    assert pod.init(INIT_CONFIG=_init_plugins(own, *BUILT_IN)).returncode == 0, pod.log
    assert (pod.volume / "made").read_text() == str(pod.volume / "runtime.d")
    for printed in ("printed by the plugin", "org.own: spoken"):
        assert printed in pod.log
    assert pod.init(INIT_CONFIG=_init_plugins("org.own")).returncode == 1
    assert "word" in pod.log


def test_a_signal_that_a_plugin_swallows_ends_init_all_the_same(tmp_path: Path, site: Site) -> None:
    swallowing = """
@hookimpl
def pai_init_container(container):
    import os, signal
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        raise ImportError("as the import system does it") from None
"""
    site.add("org.deaf", swallowing, hooks=["pai_init_container"])
    pod = PodFolder(tmp_path, **site.environment(), INIT_CONFIG=_init_plugins("org.deaf"))
    assert pod.init().returncode == 128 + signal.SIGTERM
    assert "signal 15" in pod.log.splitlines()[-1]


def test_what_a_plugin_prints_is_in_the_log_in_its_place(tmp_path: Path, site: Site) -> None:
    printing = """
@hookimpl
def pai_init_container(container):
    import os
    print("printed")
    container.say("said")
    print("last")
    os._exit(3)
"""
    site.add("org.prints", printing, hooks=["pai_init_container"])
    pod = PodFolder(tmp_path, **site.environment(), INIT_CONFIG=_init_plugins("org.prints"))
    assert pod.init().returncode == 3
    first, second, third = pod.log.splitlines()[-3:]
    assert (first, second.endswith("said"), third) == ("printed", True, "last")
    assert not (pod.volume / "runtime").exists()


def test_an_error_of_an_init_plugin_names_it_with_its_version(tmp_path: Path, site: Site) -> None:
    made = site.add("org.own", "@hookimpl\ndef pai_init_container(): 1 / 0\n", hooks=["pai_init_container"])
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    assert pod.init(INIT_CONFIG=_init_plugins("org.own")).returncode == 1
    last = pod.log.splitlines()[-1]
    for part in (made.label, "ZeroDivisionError", "pai_init_container"):
        assert part in last
    assert "Traceback" not in pod.log


def test_an_init_plugin_that_the_policy_refuses_is_never_imported(tmp_path: Path, site: Site) -> None:
    made = site.add("org.own", INIT_PLUGIN, hooks=["pai_init_container"])
    policy = write_policy(tmp_path, _ALLOWED, policy_rule(made, versions="==2.0"))
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    done = pod.init(INIT_CONFIG=_init_plugins("org.own", "org.none"), PAI_RUNTIME_POLICY=str(policy))
    assert done.returncode == 1
    errors = [line for line in pod.log.splitlines() if " error: " in line]
    assert [("org.own" in line, "org.none" in line) for line in errors] == [(True, False), (False, True)]
    assert str(policy) in errors[0]
    assert not site.imported


def test_init_does_not_run_where_the_policy_refuses_what_brings_it(tmp_path: Path, site: Site) -> None:
    policy = write_policy(tmp_path, policy_rule(site.add("org.own", INIT_PLUGIN)))
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    done = pod.init(PAI_RUNTIME_POLICY=str(policy))
    assert done.returncode == CANNOT_RUN
    assert "pai-pod" in done.stderr
    assert not list(pod.volume.iterdir())


_STEP = """
from pai_pod.errors import InitFailed
from pai_pod.steps import GivenCommand, PlannedTask, Pod
from pai_task.plan import Command

def skipped(pod: Pod) -> str:
    return pod.environment.get("SKIP", "")

def run(pod: Pod, task: PlannedTask) -> GivenCommand:
    if "FAIL" in pod.environment:
        raise InitFailed(77, "no scratch disk")
    return GivenCommand(Command(f"echo {task.draft.role}", "scratch", False))
"""


def _scratch(site: Site) -> Made:
    """A distribution that brings the step ``scratchDisk``."""
    points = f"[{GROUP}]\norg.scratch = org_scratch\n[{STEPS}]\nscratchDisk = org_scratch.step\n"
    files = {"{package}/step.py": _STEP, "{info}/entry_points.txt": points}
    return site.add("org.scratch", "", files=files)


@pytest.mark.parametrize(
    ("environment", "code"), [({}, 0), ({"FAIL": "1"}, 77)], ids=["a result for later ones", "a failure"]
)
def test_a_distribution_can_bring_an_init_step(
    tmp_path: Path, site: Site, environment: Mapping[str, str], code: int
) -> None:
    _scratch(site)
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    listed = _init_plugins("jobConfig", "runtimePlugins", "scratchDisk")
    assert pod.init(INIT_CONFIG=listed, **environment).returncode == code, pod.log
    if code:
        assert "no scratch disk" in pod.log
        assert "Traceback" not in pod.log
    else:
        assert pod.plan["command"]["script"] == "echo taskrole"


def test_an_init_step_is_skipped_in_pods_that_it_is_not_for(tmp_path: Path, site: Site) -> None:
    _scratch(site)
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    listed = _init_plugins("jobConfig", "runtimePlugins", "scratchDisk")
    assert pod.init(INIT_CONFIG=listed, SKIP="there is no disk", FAIL="1").returncode == 0, pod.log
    assert "is skipped: there is no disk" in pod.log
    assert pod.plan["command"]["script"] == "true\n"


def test_an_init_step_says_what_it_needs_of_those_before_it(tmp_path: Path, site: Site) -> None:
    _scratch(site)
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    assert pod.init(INIT_CONFIG=_init_plugins("jobConfig", "scratchDisk", "runtimePlugins")).returncode == 1
    assert "list runtimePlugins before" in pod.log.splitlines()[-1]


def test_an_init_step_of_a_plugin_that_the_policy_refuses_is_not_imported(tmp_path: Path, site: Site) -> None:
    made = _scratch(site)
    policy = write_policy(tmp_path, _ALLOWED, policy_rule(made, versions="==2.0"))
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true"))
    listed = _init_plugins("jobConfig", "runtimePlugins", "scratchDisk")
    assert pod.init(INIT_CONFIG=listed, PAI_RUNTIME_POLICY=str(policy)).returncode == 1
    assert made.label in pod.log.splitlines()[-1]
    assert not site.imported


def test_a_pod_of_framework_controller_needs_its_init_steps(tmp_path: Path, site: Site) -> None:
    pod = PodFolder(tmp_path, **framework_variables("worker"))
    assert pod.init(PAI_RUNTIME_POLICY=str(write_policy(tmp_path, _ALLOWED))).returncode == 1
    assert "com.microsoft.pai.engine.openpai" in pod.log.splitlines()[-1]
    assert not site.imported


def test_all_that_is_wrong_with_the_configuration_is_said_at_once(tmp_path: Path) -> None:
    entries: list[Mapping[str, Any]] = [
        {"name": "portCheker"},
        {"name": "jobConfig", "parameters": {"a": 1}},
        {"command": "true"},
    ]
    pod = PodFolder(tmp_path, INIT_CONFIG=_init_plugins({"name": "own", "command": ""}, *entries))
    assert pod.init().returncode == 1
    assert len([line for line in pod.log.splitlines() if "INIT_CONFIG:" in line]) == 2
    assert pod.init(INIT_CONFIG=_init_plugins(*entries[:2])).returncode == 1
    assert len([line for line in pod.log.splitlines() if "INIT_CONFIG:" in line]) == 2
    assert "portChecker" in pod.log


def test_logs_of_an_earlier_execution_are_set_aside(tmp_path: Path) -> None:
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true"), INIT_CONFIG=_init_plugins("jobConfig"))
    for content in ("first", "second"):
        pod.logs.mkdir(parents=True, exist_ok=True)
        (pod.logs / "runtime.log").write_text(content)
        pod.init()
    before = sorted(pod.logs.glob("prelog_*"))
    assert [(each / "runtime.log").read_text() for each in before] == ["first", "second"]
    assert [path.name for path in pod.logs.iterdir() if path not in before] == ["init.log"]


@pytest.mark.parametrize("logs", [None, "elsewhere/of/mine", "/volume/else/where"])
@pytest.mark.parametrize("mask", [0o027, 0o077])
def test_every_user_may_use_what_is_left_for_the_task(tmp_path: Path, mask: int, logs: str | None) -> None:
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true", uses=[SSH]))
    pod.volume.chmod(0o777)
    if logs is not None:
        pod.environment["PAI_LOG_DIR"] = str(tmp_path / logs.lstrip("/"))
    found = pod.logs if logs is None else Path(pod.environment["PAI_LOG_DIR"])
    umask = os.umask(mask)
    try:
        assert pod.init().returncode == 0
    finally:
        os.umask(umask)
    for folder in found.relative_to(tmp_path).parents:
        assert (tmp_path / folder).stat().st_mode & 0o055 == 0o055 or folder == Path(), folder
    for folder in (pod.volume / "runtime.d", found):
        for path in (folder, *folder.rglob("*")):
            wanted = 0o777 if path.is_dir() else 0o666
            assert path.stat().st_mode & wanted == wanted, path


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PAI_LOG_DIR", "relative"),
        ("FC_POD_UID", "../../elsewhere"),
        ("PAI_WORK_DIR", "/nowhere/at/all"),
        ("PAI_WORK_DIR", "/"),
        ("PAI_RUNTIME_DIR", "/"),
    ],
)
def test_a_directory_that_is_none_is_an_error_that_names_it(
    tmp_path: Path, variable: str, value: str
) -> None:
    done = PodFolder(tmp_path).init(**{variable: value})
    assert done.returncode == 1
    assert value in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_that_says_what_to_run_is_an_error(tmp_path: Path) -> None:
    pod = PodFolder(tmp_path)
    assert pod.init().returncode == 1
    assert "RUNTIME_CONFIG" in pod.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("spec", "listed"),
    [
        (None, [255]),
        ([{"containerExitCode": 226}, {"code": 128}, {"containerExitCode": 226}], [128, 226, 255]),
        ([{"containerExitCode": 0}, {"code": -210}, {"code": 256}, {"code": "1"}, {"code": True}, 7], [255]),
        ({"code": 7}, [255]),
        ("- [", [255]),
    ],
)
def test_a_task_of_openpai_may_end_with_what_the_exit_spec_of_the_cluster_lists(
    tmp_path: Path, spec: Any, listed: list[int]
) -> None:
    pod = PodFolder(tmp_path, **framework_variables("worker"))
    if spec is not None:
        pod.mount("config/runtime-exit-spec.yaml", spec)
    with api_server(framework(pod_job())) as url:
        assert pod.init(KUBE_APISERVER_ADDRESS=url).returncode == 0
    assert pod.plan["listedCodes"] == listed


def test_an_exit_spec_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true"))
    pod.mount("config/runtime-exit-spec.yaml", "").write_bytes(b"\xff")
    assert pod.init().returncode == 0
    assert any("[WARNING]" in line and "runtime-exit-spec.yaml" in line for line in pod.log.splitlines())
