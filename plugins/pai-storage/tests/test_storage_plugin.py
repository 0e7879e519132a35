"""The storage plugins: one mount in the plan, however it is asked for, and a check of it before the task."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import InvalidInput
from pai_plugin_kit import conformance
from pai_runtime.plugin import Task
from pai_storage.mounting import contribution, named_storage, nfs_export
from pai_task.plan import Mount, Plan
from tests.job_harness import build, parameters
from tests.job_harness import planned as plans
from tests.needs import FUSE, MOUNT_NAMESPACE, is_met
from tests.nfs_server import nfs_server
from tests.plugin_factory import write_policy
from tests.support import callback, cli, job, write_job
from tests.task_harness import plan, run_task, shell

test_it_keeps_the_rules_for_plugins = pytest.mark.process(
    conformance("pvc_storage", "storage", "teamwise_storage", "com.microsoft.pai.rest.storage")
)

TASK = Task("test", "worker", 0, {"worker": 1}, {}, Path("/usr/local/pai"), user="alice", run="alice~test")
PLUGINS = "com.microsoft.pai.runtimeplugin"


def used(**fields: Any) -> dict[str, Any]:
    """A job with one such prerequisite, which its role uses."""
    prerequisite = {"name": "mine", "type": "storage", **fields}
    return job(prerequisites=[prerequisite], worker={"prerequisites": ["mine"]})


def extra(plugin: str, **parameters: Any) -> dict[str, Any]:
    return job(extras={PLUGINS: [{"plugin": plugin, "parameters": parameters}]})


def storages(*listed: dict[str, Any]) -> dict[str, Any]:
    return job(extras={"storages": list(listed)})


def planned(folder: Path, document: dict[str, Any]) -> Plan:
    """The plan of its first task; raises `InvalidInput`."""
    return plans(write_job(folder, document), ("worker", 0))["worker", 0]


def mounts(plan: Plan) -> list[Mount]:
    return [planned.mount for planned in plan.mounts]


# --- what is asked for


@pytest.mark.process
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (used(plugin="pvc_storage"), Mount("/mnt/mine", "mine")),
        (used(plugin="pvc_storage", parameters={"name": "data"}), Mount("/mnt/data", "data")),
        (used(plugin="pvc_storage", mountPath="//a/./b/"), Mount("/a/b", "mine")),
        (
            used(plugin="storage", share=False, readOnly=True),
            Mount("/mnt/mine", "mine", "storage", "alice", read_only=True),
        ),
        (extra("pvc_storage", name="data", mountPath="/data"), Mount("/data", "data")),
        (extra("storage", name="data"), Mount("/mnt/data", "data")),
        (extra("teamwise_storage", storageConfigNames=["data"]), Mount("/mnt/data", "data")),
        (used(plugin="com.microsoft.pai.rest.storage", config="data"), Mount("/mnt/data", "data")),
        (
            used(plugin="com.microsoft.pai.rest.storage", config="data", mountPoint="/data"),
            Mount("/data", "data"),
        ),
        (storages({"name": "data"}), Mount("/mnt/data", "data")),
        (
            storages({"name": "data", "mountPath": "/data", "share": False, "readOnly": True}),
            Mount("/data", "data", "storage", "alice", read_only=True),
        ),
        (
            used(requireStorages=[{"name": "data", "readOnly": True}]),
            Mount("/mnt/data", "data", read_only=True),
        ),
        (
            used(plugin="storage", server="nfs.example", path="/e/%User/%JOB"),
            Mount("/mnt/mine", "nfs.example:/e/alice/test", "nfs"),
        ),
        (
            extra("storage", server="nfs.example", path="/", mountPath="/home/%user", readOnly=True),
            Mount("/home/alice", "nfs.example:/", "nfs", read_only=True),
        ),
    ],
    ids=repr,
)
def test_however_a_storage_is_asked_for_it_is_one_mount(
    tmp_path: Path, document: dict[str, Any], expected: Mount
) -> None:
    assert mounts(planned(tmp_path, document)) == [expected]


@pytest.mark.process
def test_storages_of_extras_come_first_and_those_that_a_prerequisite_requires_before_it(
    tmp_path: Path,
) -> None:
    prerequisite = {
        "name": "data",
        "requireStorages": [{"name": "<% this.where %>"}],
        "where": "b",
        "callbacks": [callback("taskStarts", "true")],
    }
    document = job(
        prerequisites=[prerequisite],
        worker={"prerequisites": ["data"]},
        parameters={"first": "a"},
        extras={"storages": [{"name": "<% $parameters.first %>"}], PLUGINS: [{"plugin": "cmd"}]},
    )
    uses = [use.name for use in planned(tmp_path, document).uses]
    assert uses == ["a", "b", "data", "cmd", "failure_analysis", "hang"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("storage", "path"),
    [
        ({"plugin": "pvc_storage"}, "/mnt/store"),
        ({"plugin": "pvc_storage", "mountPath": "/data"}, "/data"),
        ({"plugin": "pvc_storage", "parameters": {"name": "<% $parameters.name %>"}}, "/mnt/given"),
        ({"plugin": "pvc_storage", "parameters": {"mountPath": "/<% $parameters.name %>"}}, "/given"),
        ({"plugin": "storage", "server": "s", "path": "/e"}, "/mnt/store"),
        ({"plugin": "com.microsoft.pai.rest.storage", "config": "data"}, "/mnt/data"),
        ({"plugin": "com.microsoft.pai.rest.storage", "config": "data", "mountPoint": "/data"}, "/data"),
    ],
)
def test_what_requires_a_storage_finds_where_it_is_mounted_by_both_names(
    tmp_path: Path, storage: dict[str, Any], path: str
) -> None:
    texts = [callback("taskStarts", "<% this.mountPath %> <% this.mountPoint %>")]
    document = job(
        prerequisites=[
            {"name": "store", "type": "storage", **storage},
            {"name": "data", "require": ["store"], "callbacks": texts},
        ],
        parameters={"name": "given"},
        worker={"prerequisites": ["data"]},
    )
    (found,) = parameters(build(document), "data")["callbacks"]
    assert found["commands"] == [f"{path} {path}"]
    assert [mount.path for mount in mounts(planned(tmp_path, document))] == [path]


@pytest.mark.process
@pytest.mark.parametrize(
    ("document", "words"),
    [
        (used(plugin="pvc_storage", mountPath="data"), "an absolute path without '..', not '/'"),
        (used(plugin="pvc_storage", mountPath="/a/../b"), "an absolute path without '..', not '/'"),
        (used(plugin="pvc_storage", mountPath="/"), "an absolute path without '..', not '/'"),
        (used(plugin="pvc_storage", mountPath="/."), "an absolute path without '..', not '/'"),
        (used(plugin="storage", mountPath="//.//./"), "an absolute path without '..', not '/'"),
        (
            used(plugin="com.microsoft.pai.rest.storage", config="a", mountPoint="/./"),
            "an absolute path without '..', not '/'",
        ),
        (storages({"name": "a", "mountPath": "b"}), "extras.storages[0].mountPath: expected"),
        (storages({"name": "a/b"}), "expected the name of a storage"),
        (storages({}), "extras.storages[0]: missing field 'name'"),
        (storages({"name": "a", "mountpath": "/b"}), "did you mean mountPath?"),
        (job(extras={"storages": ["a"]}), "expected a mapping with the name of a storage"),
        (used(requireStorages=[{"name": ".."}]), "prerequisites[1].requireStorages[0].name: expected"),
        (extra("teamwise_storage", storageConfigNames=[".."]), "expected the name of a storage"),
        (used(plugin="com.microsoft.pai.rest.storage"), "missing field 'config'"),
        (extra("pvc_storage"), "parameters.name is missing: the name of the storage"),
        (extra("storage", mountPath="/data"), "parameters.name is missing: the name of the storage"),
        (used(plugin="storage", server="s"), "missing field 'path'"),
        (used(plugin="storage", path="/e"), "missing field 'server'"),
        (
            used(plugin="storage", server="s", path="/e", share=False),
            "either the name of a storage, or server",
        ),
        (used(plugin="storage", server="s", path="/../e"), "expected an absolute path without '..'"),
        (used(plugin="storage", server="-s", path="/e"), "expected the name or address of an NFS server"),
    ],
)
def test_what_cannot_be_mounted_is_a_validation_error(
    tmp_path: Path, document: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(tmp_path, document)
    assert words in str(caught.value)


RESERVED = (
    *("/usr/local/pai", "/usr/local/pai/runtime", "/usr/local/pai/logs/x", "/usr/local"),
    *(
        "/usr/local/pai-config",
        "/usr/local/pai-code/x",
        "/opt",
        "/opt/pai-runtime/init.d",
        "/etc/pai-runtime",
    ),
    *("/user/local", "/user/local/pai/init.d"),
    *(
        "/proc/self",
        "/proc/sys/kernel",
        "/sys/fs",
        "/dev",
        "/dev/shm",
        "/dev/shm/data",
        "/dev/null",
        "/dev/new",
    ),
    *("/etc", "/etc/ssh", "/bin", "/usr/bin", "/lib", "/usr/lib/git-core", "/usr/local/bin", "/usr"),
)
TOO_LONG = (f"/{256 * 'a'}", f"/{128 * 'é'}", 41 * f"/{99 * 'a'}")
FREE = (
    f"/{255 * 'a'}",
    "/...",
    "/mnt/etc",
    "/usr/local/data",
    "/usr/local/pair",
    "/data",
    "/opt/data",
    "/tmp",
)


@pytest.mark.process
def test_what_can_be_mounted_nowhere_or_over_or_into_what_the_runtime_and_its_hooks_need_is_a_conflict(
    tmp_path: Path,
) -> None:
    paths = {f"s{number}": path for number, path in enumerate((*FREE, *RESERVED, *TOO_LONG))}
    with pytest.raises(InvalidInput) as caught:
        planned(tmp_path, storages(*({"name": name, "mountPath": paths[name]} for name in paths)))
    told = [(problem.code, problem.field) for problem in caught.value.problems]
    assert told == [("mount-conflict", f"use '{name}'") for name in paths if paths[name] not in FREE]


ALLOWED = (
    *("vers=4.2,nconnect=4", "nfsvers=4", "soft,timeo=600,retrans=2", "sec=krb5p"),
    *("noatime,nosuid,nodev", "proto=tcp6,port=20490", "clientaddr=fe80::1"),
)
REFUSED = (
    *("rw", "ro", "vers=4.2,rw", "soft,ro,hard", "remount", "bind", "rbind", "move", "loop", "defaults,bind"),
    *("user", "suid", "X-mount.subdir=/..", "x-mount.mkdir", "context=x", "mountaddr=10.0.0.1", "vers=3"),
    *("a b", "soft,", ",soft", "soft,,hard", "soft\n", "timeo=1e3", ""),
)


def test_options_of_a_mount_are_those_of_nfs_that_change_neither_what_is_mounted_nor_who_may_do_what(
    tmp_path: Path,
) -> None:
    listed = [
        {
            "name": f"n{number}",
            "type": "storage",
            "plugin": "storage",
            "server": "s",
            "path": "/",
            "options": each,
        }
        for number, each in enumerate((*ALLOWED, *REFUSED))
    ]
    document = job(prerequisites=listed, worker={"prerequisites": [each["name"] for each in listed]})
    with pytest.raises(InvalidInput) as caught:
        planned(tmp_path, document)
    told = [(problem.code, problem.found) for problem in caught.value.problems]
    assert told == [("wrong-value", json.dumps(each)) for each in REFUSED]


def test_whether_it_may_be_written_is_the_last_option_of_a_mount() -> None:
    export = nfs_export(TASK, "s", "/e", "/mnt/e", read_only=True)
    (step,) = contribution(export, options="soft").steps
    assert " options=soft,ro " in step.script


SECRET = "<% $secrets.s %>"


@pytest.mark.process
@pytest.mark.parametrize(
    ("document", "name"),
    [
        (extra("pvc_storage", name=SECRET), "name"),
        (extra("pvc_storage", name="a", mountPath=f"/{SECRET}"), "mountPath"),
        (extra("storage", server=SECRET, path="/e"), "server"),
        (extra("storage", server="s", path=SECRET), "path"),
        (extra("storage", server="s", path="/e", options=SECRET), "options"),
        (extra("com.microsoft.pai.rest.storage", config=SECRET), "config"),
        (extra("com.microsoft.pai.rest.storage", config="a", mountPoint=SECRET), "mountPoint"),
        (extra("teamwise_storage", storageConfigNames=["a", SECRET]), "storageConfigNames"),
        (storages({"name": SECRET}), "name"),
        (used(requireStorages=[{"name": "a", "mountPath": SECRET}]), "mountPath"),
    ],
    ids=repr,
)
def test_a_secret_cannot_say_what_is_mounted_because_mounts_are_in_the_plan(
    tmp_path: Path, document: dict[str, Any], name: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(tmp_path, {**document, "secrets": {"s": "nobody-knows"}})
    (problem,) = caught.value.problems
    assert problem.code == "plugin-error"
    assert f"hook pai_prerequisite: {name} contains a secret" in problem.message
    assert "\0" not in problem.field


@pytest.mark.process
@pytest.mark.parametrize("parameters", [None, {}, {"storageConfigNames": None}, {"storageConfigNames": []}])
def test_the_users_default_storage_is_not_known_and_asking_for_it_is_a_warning(
    tmp_path: Path, parameters: dict[str, Any] | None
) -> None:
    use = {"plugin": "teamwise_storage", "parameters": parameters}
    plan = planned(tmp_path, job(extras={PLUGINS: [use]}))
    (warning,) = plan.warnings
    assert "the user's default storage" in warning
    assert not plan.mounts


@pytest.mark.process
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x/"}, "mounts b at /x, where 'a'"),
        ({"name": "a"}, {"name": "a", "readOnly": True}, "mounts a at /mnt/a, where 'a'"),
        ({"name": "a"}, {"name": "a", "share": False}, "mounts a at /mnt/a, where 'a'"),
        (
            {"name": "a", "mountPath": "/x/y"},
            {"name": "b", "mountPath": "/x"},
            "the outer one has to come first",
        ),
    ],
)
def test_a_conflict_of_two_storages_is_a_validation_error_that_names_both_positions(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], words: str
) -> None:
    path = write_job(tmp_path, storages(first, second))
    ended = cli("validate", path)
    assert ended.returncode == 1
    line = next(line for line in ended.stderr.splitlines() if words in line)
    places = [number for number, text in enumerate(path.read_text().splitlines(), 1) if "- name: " in text][
        -2:
    ]
    assert line.startswith(f"{path}:{places[1]}:")
    assert f"{path}:{places[0]}:" in line


@pytest.mark.process
@pytest.mark.parametrize(
    "listed",
    [
        [{"name": "a"}, {"name": "a", "mountPath": "/mnt/a"}],
        [{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x/y"}],
        [{"name": "a"}, {"name": "a", "mountPath": "/mnt/a-2"}],
    ],
)
def test_what_is_no_conflict_is_allowed_and_the_same_mount_is_there_once(
    tmp_path: Path, listed: list[dict[str, Any]]
) -> None:
    found = mounts(planned(tmp_path, storages(*listed)))
    assert len(found) == len({mount.path for mount in found})


@pytest.mark.process
def test_a_conflict_is_an_error_also_where_failures_are_ignored_and_in_every_role(tmp_path: Path) -> None:
    listed = [
        {
            "name": name,
            "type": "storage",
            "plugin": "pvc_storage",
            "mountPath": "/x",
            "failurePolicy": "ignore",
        }
        for name in "abc"
    ]
    document = job(prerequisites=listed, worker={"prerequisites": ["a", "b"]})
    document["taskRoles"]["other"] = {**document["taskRoles"]["worker"], "prerequisites": ["b", "c"]}
    ended = cli("validate", write_job(tmp_path, document))
    assert ended.stderr.count("error: use ") == 2
    assert "use 'b': mounts b at /x, where 'a'" in ended.stderr
    assert "use 'c': mounts c at /x, where 'b'" in ended.stderr


@pytest.mark.process
def test_storages_of_a_plugin_that_is_refused_are_told_with_their_place(tmp_path: Path) -> None:
    policy = write_policy(tmp_path)
    ended = cli("validate", write_job(tmp_path, storages({"name": "data"})), "--policy", policy)
    assert ended.returncode == 1
    assert (
        "error: use 'data': plugin com.microsoft.pai.runtimeplugin.pvc_storage (pai-storage" in ended.stderr
    )


# --- local runs


def _run(folder: Path, document: dict[str, Any], *args: str | Path) -> subprocess.CompletedProcess[str]:
    return cli("run", write_job(folder, document), "--out", folder / "run", *args)


@pytest.mark.process
@pytest.mark.needs("user namespaces")
def test_storages_are_folders_of_this_machine_in_a_local_run(tmp_path: Path) -> None:
    for name in ("data", "models", "data/inner"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/numbers").write_text("1 2 3\n")
    (tmp_path / "storages.yaml").write_text("data: data\nmodels: /nowhere\nnot-used: /nowhere\n")
    document = storages(
        {"name": "data", "readOnly": True},
        {"name": "models", "share": False, "mountPath": "/mnt/data/inner"},
        {"name": "models", "mountPath": "/models"},
        {"name": "models", "mountPath": "/models/deep/er"},
    )
    commands = [
        "cat /mnt/data/numbers",
        "touch /mnt/data/more 2>/dev/null || echo refused",
        "echo weights > /mnt/data/inner/mine; echo shared > /models/deep/er/all",
    ]
    document["taskRoles"]["worker"]["commands"] = commands
    given: list[str | Path] = [
        "--storage-config",
        tmp_path / "storages.yaml",
        "--storage",
        f"models={tmp_path / 'models'}",
    ]
    ended = _run(tmp_path, document, *given)
    assert (ended.returncode, ended.stdout) == (0, "1 2 3\nrefused\n"), ended.stderr
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["inner", "numbers"]
    assert (tmp_path / "models/all").read_text() == "shared\n"
    assert [path.read_text() for path in (tmp_path / "models").glob("*/mine")] == ["weights\n"]


@pytest.mark.process
def test_storages_that_are_missing_are_all_named_before_anything_starts(tmp_path: Path) -> None:
    ended = _run(tmp_path, storages({"name": "a"}, {"name": "b"}, {"name": "c"}), "--storage", "c=/nowhere")
    assert ended.returncode == 2
    for words in ("--storage a=DIR", "--storage b=DIR", "'c' is /nowhere, which is not a directory"):
        assert words in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@pytest.mark.needs("user namespaces")
@pytest.mark.parametrize(
    ("links", "paths"),
    [
        ({"link": "/usr/local/pai/runtime"}, ["{here}/link"]),
        ({"link": "/usr/local"}, ["{here}/link/pai/private"]),
        ({"link": "/dev"}, ["{here}/link/new"]),
        ({}, ["{here}/run/worker/0/private"]),
        ({"link": "{here}/run"}, ["{here}/link/worker"]),
        ({"link": "{here}"}, ["{here}/link"]),
        ({"one": "{here}/place", "two": "{here}/place"}, ["{here}/one", "{here}/two"]),
    ],
)
def test_what_is_in_conflict_by_the_links_of_this_machine_starts_nothing(
    tmp_path: Path, links: dict[str, str], paths: list[str]
) -> None:
    for name, target in links.items():
        (tmp_path / name).symlink_to(target.format(here=tmp_path))
    paths = [path.format(here=tmp_path) for path in paths]
    listed = [{"name": f"data{number}", "mountPath": path} for number, path in enumerate(paths)]
    with tempfile.TemporaryDirectory() as elsewhere:
        given = [word for each in listed for word in ("--storage", f"{each['name']}={elsewhere}")]
        ended = _run(tmp_path, storages(*listed), *given)
    assert ended.returncode == 2, ended.stderr
    assert paths[-1] in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@pytest.mark.needs("user namespaces")
def test_a_link_of_this_machine_is_no_conflict_where_the_paths_are_apart(tmp_path: Path) -> None:
    for name in ("outer", "inner", "place"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "place/deep")
    document = storages(
        {"name": "inner", "mountPath": f"{tmp_path}/link"},
        {"name": "outer", "mountPath": f"{tmp_path}/place"},
    )
    document["taskRoles"]["worker"]["commands"] = [
        f"cd {shlex.quote(str(tmp_path))}",
        "touch link/in place/out",
    ]
    given = [word for name in ("inner", "outer") for word in ("--storage", f"{name}={tmp_path / name}")]
    ended = _run(tmp_path, document, *given)
    assert ended.returncode == 0, ended.stderr
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["in"]
    assert sorted(path.name for path in (tmp_path / "outer").iterdir()) == ["deep", "out"]


@pytest.mark.process
@pytest.mark.needs("user namespaces")
def test_a_read_only_storage_needs_a_place_for_what_is_mounted_in_it(tmp_path: Path) -> None:
    document = storages(
        {"name": "a", "readOnly": True, "mountPath": "/a"}, {"name": "a", "mountPath": "/a/b"}
    )
    (tmp_path / "a").mkdir()
    ended = _run(tmp_path, document, "--storage", f"a={tmp_path / 'a'}")
    assert ended.returncode == 2
    assert f"create the directory {tmp_path / 'a/b'} for it" in ended.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a]", "expected a mapping from names of storages to directories"),
        ("a: 1", "storages.yaml:1:4: error: a: expected a directory"),
        (None, "cannot be read"),
    ],
)
def test_a_file_of_storages_that_is_none_starts_nothing(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "storages.yaml").write_text(text)
    ended = _run(tmp_path, job(), "--storage-config", tmp_path / "storages.yaml")
    assert ended.returncode == 2
    assert words in ended.stderr


@pytest.mark.parametrize("user", ["../../etc", "a/b", ".hidden"])
def test_the_name_of_a_user_leads_to_no_other_folder(user: str) -> None:
    task = replace(TASK, user=user)
    shared = named_storage(task, "data", "/mnt/%user", share=False)
    export = nfs_export(task, "server", "/e/%USER", "/mnt/e", read_only=False)
    (name,) = {shared.sub_path, shared.path.removeprefix("/mnt/"), export.source.removeprefix("server:/e/")}
    assert "/" not in name
    assert not name.startswith(".")


@pytest.mark.process
@pytest.mark.needs("user namespaces")
def test_a_folder_may_stand_for_an_export_and_nobody_asks_the_server(tmp_path: Path) -> None:
    document = used(plugin="storage", server="nowhere.invalid", path="/e/%JOB", mountPath="//mnt/%JOB")
    document["taskRoles"]["worker"]["commands"] = ["echo hello > /mnt/test/file"]
    export = tmp_path / "export"
    export.mkdir()
    ended = _run(tmp_path, document, "--storage", f"nowhere.invalid:/e/test={export}")
    assert ended.returncode == 0, ended.stderr
    assert (export / "file").read_text() == "hello\n"


MISSING = {
    "a storage that is not here": ("pvc_storage", {"name": "mine"}, "--storage mine=DIR"),
    "a storage of older jobs": ("teamwise_storage", {"storageConfigNames": ["mine"]}, "--storage mine=DIR"),
    "a storage without a name": ("pvc_storage", {}, "parameters.name is missing"),
}


@pytest.mark.process
@pytest.mark.parametrize(("policy", "code"), [("fail", 2), ("ignore", 0)])
@pytest.mark.parametrize(("plugin", "parameters", "words"), MISSING.values(), ids=MISSING)
def test_what_is_missing_here_is_left_out_only_if_the_policy_says_so(
    tmp_path: Path, plugin: str, parameters: dict[str, Any], words: str, policy: str, code: int
) -> None:
    document = extra(plugin, **parameters)
    document["extras"][PLUGINS][0]["failurePolicy"] = policy
    ended = _run(tmp_path, document)
    assert ended.returncode == code, ended.stderr
    log = tmp_path / "run/worker/0/logs/runtime.log"
    assert words in ended.stderr + (log.read_text() if log.exists() else "")


# --- the check in the task


SHELLS = [
    pytest.param(["bash"], id="bash"),
    pytest.param(["dash"], id="dash", marks=pytest.mark.needs("dash")),
    pytest.param(["busybox", "sh"], id="busybox", marks=pytest.mark.needs("busybox-static")),
]


@pytest.mark.process
@pytest.mark.parametrize(("policy", "code"), [("fail", 2), ("ignore", 0)])
def test_where_tasks_are_not_isolated_a_storage_is_left_out_only_if_the_policy_says_so(
    tmp_path: Path, policy: str, code: int
) -> None:
    (tmp_path / "data").mkdir()
    document = used(plugin="pvc_storage", failurePolicy=policy)
    ended = _run(tmp_path, document, "--storage", f"mine={tmp_path / 'data'}", "--isolation", "none")
    assert ended.returncode == code
    said = "not mounted, and the failurePolicy of 'mine'" if policy == "ignore" else "nothing was started"
    assert said in ended.stderr
    assert "/mnt/mine" in ended.stderr
    assert "--isolation none" in ended.stderr


def _script(mount: Mount) -> str:
    (step,) = contribution(mount).steps
    return step.script


def _checked(
    argv: list[str], mount: Mount, before: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The check of a mount, run by a shell in a mount namespace in which `before` has been run."""
    script = f"set -e\n{before}\n{_script(mount)}"
    return subprocess.run(
        [*MOUNT_NAMESPACE, *argv, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


READ_ONLY = "mount -o remount,bind,ro {path}"


@pytest.mark.process
@pytest.mark.needs("mounts")
@pytest.mark.parametrize("argv", SHELLS)
@pytest.mark.parametrize(
    ("asked", "before", "code", "words"),
    [
        ("storage", "mount --bind {path} {path}", 0, "data is at {path} ("),
        ("storage, read-only", "mount --bind {path} {path}; " + READ_ONLY, 0, "read-only)"),
        ("storage", ":", 1, "data at {path}: nothing is mounted there"),
        ("storage", "rmdir {path}", 1, "data at {path}: nothing is mounted there: "),
        (
            "storage",
            "mount --bind {path} {path}; " + READ_ONLY,
            1,
            "is mounted read-only, expected",
        ),
        (
            "storage, read-only",
            "mount --bind {path} {path}",
            1,
            "is mounted writable, expected read-only",
        ),
        ("storage", "mount --bind {path} {path}; mount -t tmpfs none {path}", 0, "(tmpfs, writable"),
        ("nfs", "mount -t tmpfs none {path}", 1, "expected NFS, found tmpfs mounted there"),
        ("nfs", "export PAI_LOCAL_FOLDERS={path}; mount -t tmpfs none {path}", 0, "(tmpfs, writable"),
    ],
)
def test_start_checks_that_what_is_mounted_is_what_was_asked_for(
    tmp_path: Path, argv: list[str], asked: str, before: str, code: int, words: str
) -> None:
    path = tmp_path / "a place"
    path.mkdir()
    mount = {
        "storage": named_storage(TASK, "data", str(path)),
        "storage, read-only": named_storage(TASK, "data", str(path), read_only=True),
        "nfs": nfs_export(TASK, "server", "/%USER", str(path), read_only=False),
    }[asked]
    before = before.replace("{path}", shlex.quote(str(path)))
    ended = _checked(argv, mount, before)
    assert ended.returncode == code, ended.stderr
    assert words.replace("{path}", str(path)) in ended.stdout + ended.stderr


@pytest.mark.process
@pytest.mark.needs("mounts")
def test_a_link_to_where_it_is_mounted_is_as_good(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    mount = named_storage(TASK, "data", str(tmp_path / "link"))
    ended = _checked(["sh"], mount, f"mount -t tmpfs none {shlex.quote(str(tmp_path))}/real")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.process
def test_nothing_of_the_check_reaches_what_comes_later(tmp_path: Path) -> None:
    script = "export path=mine source=mine\n" + _script(named_storage(TASK, "data", str(tmp_path)))
    run = run_task(plan(tmp_path / "task", "echo $path $source", [shell("taskStarts", 0, script, "ignore")]))
    assert run.stdout_log == b"mine mine\n"


@pytest.mark.process
@pytest.mark.needs("FUSE")
@pytest.mark.parametrize(("policy", "code"), [("fail", 240), ("ignore", 0)])
def test_a_storage_that_does_not_answer_does_not_hang_the_task(
    tmp_path: Path, policy: Any, code: int
) -> None:
    dead = tmp_path / "dead"
    dead.mkdir()
    script = _script(named_storage(TASK, "data", str(dead))).replace("seconds=30", "seconds=1")
    wrap = [sys.executable, "-c", FUSE, str(dead)]
    task = plan(tmp_path / "task", "echo on it goes", [shell("taskStarts", 0, script, policy)])
    run = run_task(task, wrap=wrap)
    assert run.process.returncode == code, run.stderr
    assert f"data at {dead}: timed out after 1 s" in run.runtime_log
    assert run.stdout_log == (b"" if code else b"on it goes\n")


@pytest.mark.process
@pytest.mark.parametrize(("policy", "code"), [("fail", 240), ("ignore", 0)])
def test_a_storage_that_is_not_mounted_fails_the_task_unless_it_is_ignored(
    tmp_path: Path, policy: Any, code: int
) -> None:
    script = _script(named_storage(TASK, "data", str(tmp_path)))
    run = run_task(plan(tmp_path / "task", "true", [shell("taskStarts", 0, script, policy)]))
    assert run.process.returncode == code
    assert f"data at {tmp_path}: nothing is mounted there" in run.runtime_log


@pytest.mark.process
def test_a_container_that_may_not_mount_says_so(tmp_path: Path) -> None:
    mount = nfs_export(TASK, "server", "/export", str(tmp_path), read_only=False)
    without = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"] if is_met("root") else []
    ended = subprocess.run(
        [*without, "bash", "-c", _script(mount)], capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 1
    assert "this container may not mount (it lacks CAP_SYS_ADMIN)" in ended.stderr


# --- NFS


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of an NFS server, and the folder that it exports."""
    folder = tmp_path_factory.mktemp("nfs")
    with nfs_server(folder) as port:
        (folder / "export/alice").mkdir()
        (folder / "export/file").touch()
        yield port, folder / "export"


KERNEL = f"a kernel that has {'' if 'nfs4' in Path('/proc/filesystems').read_text() else 'no '}NFS"


@pytest.mark.process
@pytest.mark.needs("root", "mounts", "nfs-common", "nfs-ganesha", "nfs-ganesha-vfs")
@pytest.mark.parametrize("kernel", [KERNEL])
def test_a_container_that_may_mount_mounts_an_export_or_says_why_it_cannot(
    tmp_path: Path, export: tuple[int, Path], kernel: str
) -> None:
    port, folder = export
    document = used(
        plugin="storage",
        server="127.0.0.1",
        path="/export/",
        mountPath="/mnt/of/%USER",
        options=f"port={port}",
    )
    document["taskRoles"]["worker"]["commands"] = ['echo hello > "/mnt/of/$PAI_USER_NAME/hello"']
    ended = _run(tmp_path, document)
    log = (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    if kernel == "a kernel that has NFS":
        assert ended.returncode == 0, ended.stderr
        assert (folder / "hello").read_text() == "hello\n"
    else:
        assert ended.returncode == 238
        assert "cannot be mounted, because this kernel has no NFS: mount.nfs4: " in log
