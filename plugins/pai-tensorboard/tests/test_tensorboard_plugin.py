"""The plugin com.microsoft.pai.runtimeplugin.tensorboard: TensorBoard beside a task."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest

from pai_plugin_kit import conformance
from pai_runtime.host.blame import PluginError
from pai_runtime.host.host import Host
from pai_runtime.host.planning import contribution_of
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plugin import Contribution, Task, Use
from pai_task.placeholders import placeholder
from pai_task.plan import Plan, PlannedService
from tests.job_harness import all_plans, build, checked_roles, parameter_problems, planned
from tests.support import PROGRAM, callback, cli, job, until, write_job

ID = "com.microsoft.pai.runtimeplugin.tensorboard"
test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance(ID))
PORTS = {"ssh": (15000,), "http": (15001, 15002)}


def contribution(folder: Path, ports: Any = PORTS, **parameters: Any) -> Contribution:
    host = Host(NO_POLICY)
    use = Use(ID, "board", {"logdir": "runs", **parameters}, "fail", "job.yaml:1:1", ("worker",))
    task = Task("job", "worker", 0, {"worker": 1}, ports, folder)
    return contribution_of(host.load(host.find(ID)), use, task)


def extra(*, policy: str = "fail", roles: list[str] | None = None, **parameters: Any) -> dict[str, Any]:
    """The field ``extras`` of a job that uses the plugin."""
    use = {"plugin": "tensorboard", "failurePolicy": policy, "parameters": {"logdir": "runs", **parameters}}
    return {"com.microsoft.pai.runtimeplugin": [{**use, **({"taskroles": roles} if roles else {})}]}


def with_board(document: dict[str, Any]) -> list[str]:
    """The tasks of a job that have a TensorBoard, as they are planned."""
    plans = all_plans(build(document))
    return [f"{role}/{index}" for (role, index), plan in plans.items() if _own(plan)]


def _own(plan: Plan) -> list[PlannedService]:
    return [each for each in plan.services if plan.uses[each.use].plugin.endswith(".tensorboard")]


def three_roles(needs: dict[str, list[str]], **fields: Any) -> dict[str, Any]:
    """A job with the roles c, b, a, of two tasks each, which use these prerequisites."""
    document = job(**fields)
    worker = {**document["taskRoles"]["worker"], "instances": 2}
    roles = {name: {**worker, "prerequisites": needs.get(name, [])} for name in "cba"}
    return {**document, "taskRoles": roles}


@pytest.mark.process
@pytest.mark.parametrize(
    ("roles", "expected"),
    [(None, "c/0"), (["b"], "b/0"), (["a", "b"], "b/0"), (["a", "b", "c"], "c/0")],
)
def test_in_extras_it_is_in_the_first_task_of_the_first_of_its_roles(
    roles: list[str] | None, expected: str
) -> None:
    assert with_board(three_roles({}, extras=extra(roles=roles))) == [expected]


@pytest.mark.process
@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"c": ["board"], "a": ["board"]}, ["c/0"]),
        ({"a": ["board"]}, ["a/0"]),
        ({"b": ["requires"], "a": ["board"]}, ["b/0"]),
        ({}, []),
    ],
)
def test_as_a_prerequisite_it_is_in_the_first_task_of_the_first_role_that_needs_it(
    needs: dict[str, list[str]], expected: list[str]
) -> None:
    board = {"name": "board", "type": "output", "plugin": "tensorboard", "logdir": "runs"}
    requires = {"name": "requires", "type": "data", "require": ["board"]}
    assert with_board(three_roles(needs, prerequisites=[board, requires])) == expected


@pytest.mark.parametrize(
    ("ports", "given", "expected"),
    [
        (PORTS, {}, 15001),
        ({**PORTS, "tensorboard": (15003,)}, {}, 15003),
        ({**PORTS, "tensorboard": (15003,)}, {"port": "http"}, 15001),
        (PORTS, {"port": 11449}, 11449),
        (PORTS, {"port": 11449.0}, 11449),
    ],
)
def test_its_port_is_a_number_or_one_of_the_tasks_ports(
    tmp_path: Path, ports: dict[str, tuple[int, ...]], given: dict[str, Any], expected: int
) -> None:
    (service,) = contribution(tmp_path, ports, **given).services
    assert service.address == f"http://$PAI_CURRENT_CONTAINER_IP:{expected}"
    assert f"--port={expected} " in service.script


def test_a_label_that_no_port_has_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="has the label 'web'; its labels are ssh, http"):
        contribution(tmp_path, port="web")


@pytest.mark.parametrize("logdir", [f"runs/{placeholder('s')}", {"a": placeholder("s")}])
def test_a_secret_in_a_folder_is_refused_as_it_would_be_shown(tmp_path: Path, logdir: Any) -> None:
    with pytest.raises(PluginError, match="logdir contains a secret"):
        contribution(tmp_path, logdir=logdir)


def test_it_holds_up_nothing_and_lingers_only_if_told_to(tmp_path: Path) -> None:
    (service,) = contribution(tmp_path).services
    assert (service.required, service.restart, service.linger) == (False, "on-failure", 0)
    (service,) = contribution(tmp_path, linger_minutes=1.5).services
    assert service.linger == 90


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"logdir": {}}, "logdir"),
        ({"logdir": ""}, "logdir"),
        ({"logdir": ["runs"]}, "logdir"),
        ({"logdir": "hdfs://server/runs"}, "logdir"),
        ({"logdir": {"../a": "runs"}}, "logdir.../a"),
        ({"logdir": {"a": 3}}, "logdir.a"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": "6006"}, "port"),
        ({"linger_minutes": -1}, "linger_minutes"),
        ({"linger_minutes": 1e300}, "linger_minutes"),
        ({"log_dir": "runs"}, "log_dir"),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(parameters: dict[str, Any], message: str) -> None:
    document = job(extras=extra(**parameters))
    _, problems = checked_roles(build(document))
    assert [problem.field.rpartition("parameters.")[2] for problem in problems] == [message]


@pytest.mark.process
@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {}}])
def test_without_parameters_it_has_no_effect_and_that_is_a_warning(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    use = {"plugin": "tensorboard", **parameters}
    path = write_job(tmp_path, job(extras={"com.microsoft.pai.runtimeplugin": [use]}))
    (plan,) = planned(path).values()
    (warning,) = plan.warnings
    assert "it has no effect without logdir" in warning
    assert not _own(plan)


def test_with_any_other_parameter_it_needs_to_know_what_to_show() -> None:
    (problem,) = parameter_problems(ID, {"port": 6006})
    assert (problem.code, "logdir" in problem.message) == ("missing-field", True)


@pytest.mark.parametrize("port", [placeholder("s"), f"http{placeholder('s')}"])
def test_a_port_is_no_secret(tmp_path: Path, port: str) -> None:
    with pytest.raises(PluginError, match="no port of the task has the label"):
        contribution(tmp_path, port=port)


SHELLS = ["bash", pytest.param("dash", marks=pytest.mark.needs("dash"))]


def run_script(shell: str, script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which(shell) or shell, "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PAI_WORK_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.process
@pytest.mark.parametrize("shell", SHELLS)
def test_folders_are_made_and_linked_by_their_names_whatever_they_are_called(
    tmp_path: Path, shell: str
) -> None:
    work, out = tmp_path / "the work", tmp_path / "o u t"
    work.mkdir()
    places = {
        "plain": ("runs/a", work / "runs/a"),
        "absolute": (f"{out}/b", out / "b"),
        "variable": ("$OUT/c", out / "c"),
        "braces": ("${OUT}s", tmp_path / "o u ts"),
        "inside": ("x$OUT", Path(f"{work}/x{out}")),
        "quotes": ('it\'s "so"', work / 'it\'s "so"'),
        "commands": ("$(touch pwned)`touch pwned`;*", work / "$(touch pwned)`touch pwned`;*"),
        "option": ("-p", work / "-p"),
    }
    made = contribution(tmp_path / "task", logdir={name: path for name, (path, _) in places.items()})
    for _ in range(2):  # a second time changes nothing
        done = run_script(shell, made.steps[0].script, work, OUT=str(out))
        assert (done.returncode, done.stderr) == (0, "")
    links = {link.name: link.readlink() for link in (tmp_path / "task/tensorboard/15001/runs").iterdir()}
    assert {name: Path(os.path.normpath(path)) for name, path in links.items()} == {
        name: expected for name, (_, expected) in places.items()
    }
    assert all(expected.is_dir() for _, expected in places.values())
    assert not (work / "pwned").exists()


@pytest.mark.process
def test_a_single_folder_is_shown_as_it_is(tmp_path: Path) -> None:
    made = contribution(tmp_path / "task", logdir="$OUT/runs of today")
    assert run_script("sh", made.steps[0].script, tmp_path, OUT=str(tmp_path)).returncode == 0
    assert (tmp_path / "runs of today").is_dir()
    assert "--logdir=\"$OUT\"'/runs of today' " in made.services[0].script


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


FAKE = '#!/bin/sh\ncase $1 in -c | --version) exit {code} ;; -I) [ "$2" = -c ] && exit {code} ;; esac\n'


def fakes(folder: Path, *good: str) -> dict[str, str]:
    """Programs that say how they were called; only the `good` ones have a TensorBoard."""
    folder.mkdir()
    for name in ("python3", "python", "tensorboard", "runtime"):
        program = folder / name
        program.write_text(FAKE.format(code=0 if name in good else 1) + 'echo "${0##*/} $*"\n')
        program.chmod(0o755)
    for name in ("sh", "rm", "cat", "grep"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return {"PATH": str(folder), "PAI_RUNTIME_PYTHON": str(folder / "runtime")}


@pytest.mark.process
@pytest.mark.parametrize(
    ("good", "chosen"),
    [
        (["python3", "python", "tensorboard", "runtime"], "python3 -m tensorboard.main"),
        (["python", "tensorboard", "runtime"], "python -m tensorboard.main"),
        (["tensorboard", "runtime"], "tensorboard"),
        (["runtime"], "runtime -I -m tensorboard.main"),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_tasks_own_tensorboard_comes_before_the_runtimes(
    tmp_path: Path, shell: str, good: list[str], chosen: str
) -> None:
    port = free_port()
    folder = tmp_path / "task/tensorboard" / str(port)
    folder.mkdir(parents=True)
    (service,) = contribution(tmp_path / "task", port=port).services
    environment = {**fakes(tmp_path / "bin", *good), "PAI_CURRENT_CONTAINER_IP": "127.0.0.1"}
    done = run_script(shell, service.script, tmp_path, **environment)
    assert done.stdout == f"{chosen} --logdir=runs --port={port} --host=127.0.0.1\n", done.stderr
    assert (folder / "started").exists()


@pytest.mark.process
def test_where_there_is_no_tensorboard_that_is_said_and_it_is_not_tried_again(tmp_path: Path) -> None:
    (service,) = contribution(tmp_path / "task", port=free_port()).services
    done = run_script("sh", service.script, tmp_path, **fakes(tmp_path / "bin"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "TensorBoard is not installed: add it to the image (pip install tensorboard)" in done.stderr


@pytest.mark.process
def test_on_a_cluster_it_can_be_reached_from_elsewhere(tmp_path: Path) -> None:
    port = free_port()
    (service,) = contribution(tmp_path / "task", port=port).services
    (tmp_path / "task/tensorboard" / str(port)).mkdir(parents=True)
    environment = {**fakes(tmp_path / "bin", "python3"), "PAI_CURRENT_CONTAINER_IP": "10.0.0.7"}
    assert " --host=0.0.0.0\n" in run_script("sh", service.script, tmp_path, **environment).stdout


@pytest.mark.process
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_somebody_else_has_is_said_and_is_not_taken_for_ours(
    tmp_path: Path, family: int, host: str
) -> None:
    with socket.socket(family) as taken:
        taken.bind((host, 0))
        port = int(taken.getsockname()[1])
        (service,) = contribution(tmp_path, port=port).services
        (tmp_path / "tensorboard" / str(port)).mkdir(parents=True)
        assert run_script("sh", str(service.probe), tmp_path).returncode == 1
        taken.listen()
        done = run_script("sh", service.script, tmp_path)
        assert (done.returncode, done.stderr.partition(";")[0]) == (
            1,
            f"port {port} is taken by another process",
        )
        assert run_script("sh", str(service.probe), tmp_path).returncode == 1
        (tmp_path / "tensorboard" / str(port) / "started").touch()
        assert run_script("sh", str(service.probe), tmp_path).returncode == 0


def crashing(folder: Path) -> dict[str, str]:
    """An environment whose python3 has a TensorBoard that fails."""
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\n[ $1 = -c ] || exit 3\n")
    (folder / "python3").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


MODES = {
    "it crashes": ({}, "service 'tensorboard' ended with exit code 3; it is restarted"),
    "a directory cannot be created": ({"logdir": "/proc/runs"}, "TensorBoard cannot show /proc/runs"),
    "its port is taken": ({"port": "TAKEN"}, "is taken by another process"),
}


@pytest.mark.process
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_whatever_happens_to_it_in_the_task_is_said_and_does_not_touch_the_job(
    tmp_path: Path, mode: str, policy: str
) -> None:
    parameters, said = MODES[mode]
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = {**parameters, **({"port": server.getsockname()[1]} if "port" in parameters else {})}
        wait = f'until grep -q "{said}" ../logs/runtime.log; do sleep 0.05; done; echo ran'
        document = job(extras=extra(policy=policy, **given), worker={"commands": [wait]})
        path = write_job(tmp_path, document)
        done = cli("run", path, "--out", tmp_path / "run", env=crashing(tmp_path / "bin"))
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


@pytest.mark.process
@pytest.mark.parametrize(("policy", "code", "output"), [("fail", 2, ""), ("ignore", 0, "ran\n")])
def test_a_port_that_there_is_not_is_left_to_the_failure_policy(
    tmp_path: Path, policy: str, code: int, output: str
) -> None:
    document = job(extras=extra(policy=policy, port="web"), worker={"commands": ["echo ran"]})
    done = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert (done.returncode, done.stdout) == (code, output)
    log = tmp_path / "run/worker/0/logs/runtime.log"
    assert "no port of the task has the label 'web'" in (log.read_text() if not code else done.stderr)


TRAINS = """\
import sys, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

for run, factor in (("train", 1), ("eval", 2)):
    writer = EventFileWriter(run)
    for step in range(5):
        value = Summary.Value(tag="loss", simple_value=factor * step)
        writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))
    writer.flush()
open(sys.argv[1], "r").read()
"""


@pytest.mark.process
def test_scalars_of_two_runs_are_read_while_the_job_runs_and_while_it_lingers(tmp_path: Path) -> None:
    (tmp_path / "trains.py").write_text(TRAINS)
    os.mkfifo(tmp_path / "go on")
    prerequisite = {
        "name": "output",
        "type": "output",
        "callbacks": [callback("taskStarts", "export EVAL=$PAI_WORK_DIR/eval")],
    }
    logdir = {"learning": "train", "judged": "$EVAL"}
    train = shlex.join([sys.executable, f"{tmp_path}/trains.py", f"{tmp_path}/go on"])
    worker = {
        "instances": 2,
        "prerequisites": ["output"],
        "commands": [f"[ $PAI_TASK_INDEX = 1 ] || exec {train}"],
    }
    document = job(
        extras=extra(logdir=logdir, linger_minutes=60), worker=worker, prerequisites=[prerequisite]
    )
    folder = tmp_path / "run"
    with subprocess.Popen(
        [PROGRAM, "run", write_job(tmp_path, document), "--out", folder, "--isolation", "none"],
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            task = folder / "worker/0"
            address = until(lambda: state(task).get("addresses", {}).get("tensorboard"))
            assert address.startswith("http://127.0.0.1:")
            for name, factor in (("learning", 1), ("judged", 2)):
                scalars = until(lambda name=name: whole(address, name))  # type: ignore[misc]
                assert [(step, value) for _, step, value in scalars] == [(n, factor * n) for n in range(5)]
            assert sorted(get(f"{address}/data/runs")) == ["judged", "learning"]
            assert list((task / "tensorboard").rglob("pid-*.info")), "not in /tmp, which others may own"
            assert run.poll() is None
            (tmp_path / "go on").write_text("")
            until(lambda: state(task).get("phase") == "lingering")
            assert len(whole(address, "learning")) == 5
            (task / "release").touch()
            _, said = run.communicate(timeout=100)
        finally:
            run.send_signal(signal.SIGTERM)
    assert run.returncode == 0
    assert f"services during the run: tensorboard at {address} in worker/0" in said
    with pytest.raises(URLError):
        get(f"{address}/data/runs")


def state(task: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads((task / "state.json").read_text())
    except FileNotFoundError:
        return {}
    return document


def get(url: str) -> Any:
    with build_opener(ProxyHandler({})).open(url, timeout=60) as answer:
        return json.load(answer)


def whole(address: str, run: str) -> Any:
    """All scalars of a run, once they are there."""
    tags = get(f"{address}/data/plugin/scalars/tags")
    if "loss" not in tags.get(run, {}):
        return []
    scalars = get(f"{address}/data/plugin/scalars/scalars?tag=loss&run={run}")
    return scalars if len(scalars) == 5 else []
