"""The hooks that run beside the task: each in a process of its own, with the real values of secrets."""

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.plugin_factory import Site, uses
from tests.support import NOT_ANALYSED, callback, job, runtime_log, write_job

pytestmark = pytest.mark.process

SECRET = 'not-for-anybody\'s "eyes" $(true)'

HOOKS = ["pai_init", "pai_task_starts", "pai_task_succeeds", "pai_task_fails", "pai_task_exits"]
PHASES = ["init", "taskStarts", "taskSucceeds", "taskFails", "taskExits"]

LOGS = "import os, json\n" + "".join(
    f"@hookimpl\ndef {name}(use, task):\n    print('{name} of', use.name)\n" for name in HOOKS
)
"""Says which hook is called, in every hook."""

SHELL_TOO = """
@hookimpl
def pai_prerequisite(use, task):
    events = ("taskStarts", "taskSucceeds", "taskFails", "taskExits")
    return Contribution(steps=[ShellStep(event, f"echo {event} of {use.name}") for event in events])
"""

TELLS = """
import json, os
@hookimpl
def pai_init(use, task):
    told = {
        "use": [use.plugin, use.name, use.parameters, use.failure_policy, use.source],
        "task": [task.job, task.role, task.index, task.instances, sorted(task.ports), str(task.folder)],
        "pid": os.getpid(),
        "cwd": os.getcwd(),
        "argv": open("/proc/self/cmdline").read(),
        "environ": dict(os.environ),
    }
    (task.folder / "told").mkdir(exist_ok=True)
    (task.folder / "told" / f"{use.name}-{os.environ['PAI_TASK_PHASE']}.json").write_text(json.dumps(told))
pai_task_starts = pai_task_succeeds = pai_task_fails = pai_task_exits = None
for name in ("starts", "succeeds", "fails", "exits"):
    exec(f"@hookimpl\\ndef pai_task_{name}(use, task): pai_init(use, task)")
"""
"""Leaves what a hook was told below the task's folder."""


@dataclass(frozen=True)
class Ran:
    """A job that was run, and the log of its one task without times."""

    status: int
    output: str
    task: Path

    @property
    def log(self) -> list[str]:
        return runtime_log(self.task)

    @property
    def said(self) -> list[str]:
        """What callbacks said, without the runtime's own messages."""
        return [line for line in self.log if not line.startswith("[")]

    def told(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.task / "told" / f"{name}.json").read_text())
        return document


def run(site: Site, folder: Path, document: dict[str, Any], *options: str) -> Ran:
    result = site.cli("run", write_job(folder, document), "--out", folder / "run", *options)
    assert "Traceback" not in result.stderr
    return Ran(result.returncode, result.stdout + result.stderr, folder / "run" / "worker" / "0")


def with_commands(document: dict[str, Any], *commands: str) -> dict[str, Any]:
    document["taskRoles"]["worker"]["commands"] = list(commands)
    return document


@pytest.mark.parametrize(("command", "after"), [("true", "Succeeds"), ("exit 3", "Fails")])
def test_hooks_run_in_the_order_of_events_and_each_after_the_scripts_of_its_use(
    site: Site, tmp_path: Path, command: str, after: str
) -> None:
    site.add("org.both", LOGS + SHELL_TOO)
    hook = f"pai_task_{after.lower()}"
    ran = run(
        site, tmp_path, with_commands(job(**uses("org.both", "org.both"), extras=NOT_ANALYSED), command)
    )
    assert ran.status == (0 if after == "Succeeds" else 3)
    assert ran.said == [
        "pai_init of use0",
        "pai_init of use1",
        "taskStarts of use0",
        "pai_task_starts of use0",
        "taskStarts of use1",
        "pai_task_starts of use1",
        f"task{after} of use1",
        f"{hook} of use1",
        f"task{after} of use0",
        f"{hook} of use0",
        "taskExits of use1",
        "pai_task_exits of use1",
        "taskExits of use0",
        "pai_task_exits of use0",
    ]


def test_a_hook_is_told_its_use_and_task_with_the_values_of_secrets(site: Site, tmp_path: Path) -> None:
    site.add("org.tells", TELLS)
    document = job(**uses("org.tells"), secrets={"key": SECRET, "list": ["first-value"]})
    document["prerequisites"][1]["parameters"] = {
        "key": "<% $secrets.key %>",
        "within": ["before <% $secrets.list[0] %> after", 1, None, True],
    }
    ran = run(site, tmp_path, document)
    assert ran.status == 0
    parameters = {"key": SECRET, "within": ["before first-value after", 1, None, True]}
    pids = set()
    for phase in ("init", "taskStarts", "taskSucceeds", "taskExits"):
        told = ran.told(f"use0-{phase}")
        source = f"{tmp_path / 'job.yaml'}:8:3"
        assert told["use"] == ["org.tells", "use0", parameters, "fail", source]
        assert told["task"] == ["test", "worker", 0, {"worker": 1}, ["http", "ssh"], str(ran.task)]
        assert SECRET not in told["argv"]
        assert SECRET not in told["environ"].values()
        pids.add(told["pid"])
    assert len(pids) == 4
    assert os.getpid() not in pids
    assert not (ran.task / "secrets.json").exists()
    assert SECRET not in (ran.task / "plan.json").read_text()


def test_a_hook_sees_the_environment_of_the_steps_and_the_outcome(site: Site, tmp_path: Path) -> None:
    site.add(
        "org.tells",
        TELLS
        + "@hookimpl\ndef pai_prerequisite(): return Contribution(environment={'CONTRIBUTED': 'yes'})\n",
    )
    document = job(**uses("cmd", "org.tells"), extras=NOT_ANALYSED)
    document["prerequisites"][1]["callbacks"] = [callback("taskStarts", "export EXPORTED=before")]
    ran = run(site, tmp_path, with_commands(document, "export EXPORTED=by-command", "exit 5"))
    assert ran.status == 5
    names = [
        "CONTRIBUTED",
        "EXPORTED",
        "PAI_TASK_INDEX",
        "PAI_TASK_PHASE",
        "PAI_TASK_OUTCOME",
        "PAI_TASK_EXIT_CODE",
    ]
    seen = {
        phase: [ran.told(f"use1-{phase}")["environ"].get(name) for name in names]
        for phase in ("init", "taskStarts", "taskFails", "taskExits")
    }
    assert seen == {
        "init": ["yes", None, "0", "init", None, None],
        "taskStarts": ["yes", "before", "0", "taskStarts", None, None],
        "taskFails": ["yes", "before", "0", "taskFails", "failed", "5"],
        "taskExits": ["yes", "before", "0", "taskExits", "failed", "5"],
    }
    assert not (ran.task / "told" / "use1-taskSucceeds.json").exists()


def test_what_a_hook_prints_is_in_the_runtime_log_without_secrets(site: Site, tmp_path: Path) -> None:
    loud = (
        "import sys, subprocess\n@hookimpl\ndef pai_init(use, task):\n"
        "    key = use.parameters['key']\n"
        "    print('out', key)\n    sys.stderr.write('err ' + key + '\\n')\n"
        "    sys.stdout.flush()\n    subprocess.run(['echo', 'program', key], check=True)\n"
    )
    site.add(
        "org.loud",
        loud + "@hookimpl\ndef pai_task_exits(use, task): raise RuntimeError(use.parameters['key'])\n",
    )
    document = job(**uses("org.loud"), secrets={"key": "a-secret-value"})
    document["prerequisites"][1]["key"] = "<% $secrets.key %>"
    ran = run(site, tmp_path, document)
    assert ran.status == 0
    assert ran.said[:3] == ["out ******", "err ******", "program ******"]
    assert "hook pai_task_exits: RuntimeError: ******" in ran.said[3]
    written = [path.read_bytes() for path in ran.task.rglob("*") if path.is_file()]
    assert written
    assert not any(b"a-secret-value" in content for content in written)
    assert "a-secret-value" not in ran.output


FAILING = {
    "raises": ("raise RuntimeError('boom')", 1, "hook {hook}: RuntimeError: boom ("),
    "exits": ("raise SystemExit(7)", 1, "hook {hook}: called sys.exit(7)"),
    "exits with 0": ("raise SystemExit(0)", 1, "hook {hook}: called sys.exit(0)"),
    "leaves at once": ("os._exit(9)", 9, None),
    "is killed": ("os.kill(os.getpid(), 9)", 137, None),
}


def run_with_failing(
    site: Site, folder: Path, policy: str, command: str, *failing: tuple[str, str]
) -> tuple[Ran, list[str]]:
    """Run a job of a good plugin, and of one for each hook that fails; also, which hooks of the good one ran.

    Each that fails is told in one message of its own, and in one of what follows from it.
    """
    site.add("org.good", LOGS)
    bad = [
        site.add(f"org.bad{number}", f"import os\n@hookimpl\ndef {hook}(use, task): {FAILING[how][0]}\n")
        for number, (hook, how) in enumerate(failing)
    ]
    plugins = uses("org.good", *(made.id for made in bad), failurePolicy=policy)
    ran = run(site, folder, with_commands(job(**plugins), command))
    kind, ignored = ("ERROR", "") if policy == "fail" else ("WARNING", ", ignored by its failurePolicy")
    for number, (made, (hook, how)) in enumerate(zip(bad, failing, strict=True), 1):
        _, code, message = FAILING[how]
        phase, source = PHASES[HOOKS.index(hook)], f"{folder / 'job.yaml'}:{8 + 4 * number}:3"
        blamed = f"{phase} of 'use{number}' ({made.id}, {made.distribution} 1.0, {source})"
        assert f"[{kind}] {blamed} ended with exit code {code}{ignored}" in ran.log
        if message:
            expected = f"use use{number} ({source}): {made.label}, {message.format(hook=hook)}"
            assert len([line for line in ran.log if line.startswith(expected)]) == 1
    assert "Traceback" not in "\n".join(ran.log)
    return ran, [line.split()[0] for line in ran.said if line.endswith(" of use0")]


SUCCEEDING = ["pai_init", "pai_task_starts", "pai_task_succeeds", "pai_task_exits"]


def test_hooks_that_fail_and_are_ignored_are_named(site: Site, tmp_path: Path) -> None:
    failing = [(hook, "raises") for hook in SUCCEEDING]
    failing += [("pai_task_starts", how) for how in FAILING if how != "raises"]
    ran, hooks = run_with_failing(site, tmp_path, "ignore", "true", *failing)
    assert (ran.status, hooks) == (0, SUCCEEDING)


@pytest.mark.parametrize(
    ("hook", "how", "status"),
    [
        ("pai_init", "raises", 240),
        ("pai_task_starts", "raises", 240),
        ("pai_task_starts", "exits with 0", 240),
        ("pai_task_starts", "is killed", 137),
    ],
)
def test_a_hook_that_fails_before_the_command_fails_the_task(
    site: Site, tmp_path: Path, hook: str, how: str, status: int
) -> None:
    ran, hooks = run_with_failing(site, tmp_path, "fail", "true", (hook, how))
    expected = ["pai_init", "pai_task_starts", "pai_task_fails", "pai_task_exits"]
    if hook == "pai_init":
        expected.remove("pai_task_starts")
    assert (ran.status, hooks) == (status, expected)


@pytest.mark.parametrize(
    ("command", "status", "hook"), [("true", 0, "pai_task_succeeds"), ("exit 4", 4, "pai_task_fails")]
)
def test_hooks_that_fail_after_the_command_are_named_and_change_nothing(
    site: Site, tmp_path: Path, command: str, status: int, hook: str
) -> None:
    failing = [(hook, "raises"), ("pai_task_exits", "raises")]
    ran, hooks = run_with_failing(site, tmp_path, "fail", command, *failing)
    assert (ran.status, hooks) == (status, ["pai_init", "pai_task_starts", hook, "pai_task_exits"])


def test_a_hook_runs_in_the_version_that_the_plan_was_made_with_or_not_at_all(
    site: Site, tmp_path: Path
) -> None:
    made = site.add("org.one", LOGS)
    swap = f"sed -i s/1.0/2.0/ {shlex.quote(str(made.info))}/METADATA"
    ran = run(site, tmp_path, with_commands(job(**uses("org.one")), swap), "--isolation", "none")
    assert ran.status == 0
    assert ran.said[:2] == ["pai_init of use0", "pai_task_starts of use0"]
    assert len(ran.said) == 4
    for line in ran.said[2:]:
        assert line.endswith("the plan needs org-one 1.0, found plugin org.one (org-one 2.0)")


def test_of_two_installed_distributions_with_the_name_of_the_plans_none_is_run(
    site: Site, tmp_path: Path
) -> None:
    made = site.add("org.one", LOGS)
    other = made.info.with_name(made.info.name.replace("1.0", "0.9"))
    copy = shlex.join(["cp", "-r", str(made.info), str(other)])
    ran = run(site, tmp_path, with_commands(job(**uses("org.one")), copy), "--isolation", "none")
    assert ran.said[:2] == ["pai_init of use0", "pai_task_starts of use0"]
    assert [made.info.name in line for line in ran.said[2:]] == [True, True]


def test_a_hook_is_given_the_arguments_that_it_names(site: Site, tmp_path: Path) -> None:
    hooks = """
import functools
@hookimpl
def pai_init(task): print("init", task.role)
@hookimpl
def pai_task_starts(use, task=None): print("starts", use.name, task)
def wrapped(use): print("succeeds", use.name)
@hookimpl
@functools.wraps(wrapped)
def pai_task_succeeds(*args): wrapped(*args)
pai_task_exits = hookimpl(lambda: print("exits"))
"""
    site.add("org.one", hooks)
    ran = run(site, tmp_path, job(**uses("org.one")))
    assert ran.said == ["init worker", "starts use0 None", "succeeds use0", "exits"]


def test_only_the_plugin_of_the_hook_is_imported_for_it_and_nothing_that_checks_manifests(
    site: Site, tmp_path: Path
) -> None:
    tells = (
        "import sys\n@hookimpl\ndef pai_init(use, task):\n"
        "    slow = 'jsonschema', 'yaml', 'pluggy', 'dataclasses', 'typing', 'importlib_metadata', 'json'\n"
        "    found = [name for name in sys.modules if name.startswith('org_') or name in slow]\n"
        "    print('imported', *sorted(found))\n"
    )
    for id_ in ("org.one", "org.two"):
        site.add(id_, tells)
    ran = run(site, tmp_path, job(**uses("org.one", "org.two")))
    assert ran.said == ["imported org_one", "imported org_two"]


def test_a_module_in_the_tasks_folder_is_not_imported_in_the_place_of_a_plugin(
    site: Site, tmp_path: Path
) -> None:
    site.add("org.one", LOGS)
    document = job(**uses("cmd", "org.one"))
    impostor = "echo 'raise SystemExit(\"impostor\")' | tee org_one.py json.py pluggy.py >/dev/null"
    document["prerequisites"][1]["callbacks"] = [callback("taskStarts", impostor, "export PYTHONPATH=$PWD")]
    ran = run(site, tmp_path, document)
    assert ran.status == 0
    assert ran.said == [f"{hook} of use1" for hook in HOOKS if hook != "pai_task_fails"]


KEEPS = """
import os, pathlib
@hookimpl
def pai_prerequisite(use, task):
    assert not use.secrets
    return Contribution(secrets=["run", "unheard_of"])
@hookimpl
def pai_init(use, task):
    (task.private / "key").write_text(use.secrets["run"])
    (task.folder / "told").write_text(f"{sorted(use.secrets)} {use.roles} {task.gang}")
"""
"""Keeps the secret of the run, and tells what else there is."""


def test_the_tasks_of_a_run_share_a_secret_which_nothing_shows(site: Site, tmp_path: Path) -> None:
    site.add("org.keeps", KEEPS)
    document = with_commands(
        job(**uses("org.keeps")),
        "sha256sum < ../private/key > digest",
        "wc -c < ../private/key > size",
        "cat ../private/key",
        "stat -c %a ../private > mode",
    )
    document["taskRoles"]["worker"]["instances"] = 2
    document["taskRoles"]["other"] = {**document["taskRoles"]["worker"], "prerequisites": []}
    document["taskRoles"]["other"] |= {"commands": ["true"], "completion": {"minSucceededInstances": -1}}
    digests = []
    for number in range(2):
        site.cli("run", write_job(tmp_path, document), "--out", tmp_path / f"run{number}")
        for index in ("0", "1"):
            task = tmp_path / f"run{number}/worker/{index}"
            digests.append((task / "work/digest").read_text())
            assert (task / "work/size").read_text() == "64\n"
            assert (task / "work/mode").read_text() == "700\n"
            assert (task / "logs/user-stdout/current").read_text() == "******"
            assert (task / "told").read_text() == "['run'] ('worker',) True"
            assert not (task / "private").exists()
    assert digests[0] == digests[1] != digests[2] == digests[3]


def test_what_is_private_to_a_task_is_gone_also_if_its_supervisor_is_killed(
    site: Site, tmp_path: Path
) -> None:
    site.add("org.keeps", KEEPS)
    kill = ["ls ../private > there", "ppid=$(grep PPid /proc/$$/status)", "kill -KILL ${ppid##*[!0-9]}"]
    ran = run(site, tmp_path, with_commands(job(**uses("org.keeps")), *kill), "--isolation", "none")
    assert ran.status == 137
    assert (ran.task / "work/there").read_text() == "key\nmask\n"
    assert not (ran.task / "private").exists()


def test_a_secret_of_the_platform_has_a_name(site: Site, tmp_path: Path) -> None:
    site.add(
        "org.asks", "@hookimpl\ndef pai_prerequisite(use, task): return Contribution(secrets=['no name'])\n"
    )
    ended = site.cli("plan", write_job(tmp_path, job(**uses("org.asks"))))
    assert ended.returncode == 1
    assert "ValueError: Contribution.secrets: " in ended.stderr
