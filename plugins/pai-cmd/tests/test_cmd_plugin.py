"""The plugin com.microsoft.pai.runtimeplugin.cmd, as jobs use it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_plugin_kit import conformance
from pai_runtime.host.host import Host
from pai_runtime.host.planning import contribution_of
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plugin import EVENTS, Contribution, Task, Use
from tests.support import callback, cli, cli_each, job, runtime_log, write_job

pytestmark = pytest.mark.process

ID = "com.microsoft.pai.runtimeplugin.cmd"
test_it_keeps_the_rules_for_plugins = conformance(ID)

NAMES = {
    "taskStarts": "taskStarts",
    "containerStart": "taskStarts",
    "containerStarts": "taskStarts",
    "taskSucceeds": "taskSucceeds",
    "taskFails": "taskFails",
    "taskExits": "taskExits",
    "containerExit": "taskExits",
    "containerExits": "taskExits",
}


def contribution(**parameters: Any) -> Contribution:
    host = Host(NO_POLICY)
    use = Use(ID, "use", parameters, "fail", "job.yaml:1:1")
    task = Task("job", "worker", 0, {"worker": 1}, {}, Path("/nowhere"))
    return contribution_of(host.load(host.find(ID)), use, task)


def planned(tmp_path: Path, *each: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Phase, script and failure policy of each step in the plan of a job with such prerequisites."""
    prerequisites = [
        {"name": f"mine{number}", "type": "script", "plugin": "cmd", **fields}
        for number, fields in enumerate(each)
    ]
    worker = {"prerequisites": [prerequisite["name"] for prerequisite in prerequisites]}
    path = write_job(tmp_path, job(prerequisites=prerequisites, worker=worker), "planned.yaml")
    result = cli("plan", path, "--json", "--task", "worker/0")
    assert result.returncode == 0, result.stderr
    plan = json.loads(result.stdout)
    own = [step for step in plan["steps"] if plan["uses"][step["use"]]["plugin"].endswith(".cmd")]
    return [(step["phase"], step["script"], step["failurePolicy"]) for step in own]


def test_every_name_of_an_event_is_known(tmp_path: Path) -> None:
    callbacks = [callback(name, name, "two") for name in NAMES]
    assert sorted(planned(tmp_path, {"callbacks": callbacks})) == sorted(
        (event, f"{name}\ntwo\n", "fail") for name, event in NAMES.items()
    )


def test_the_manifest_and_the_code_know_the_same_names() -> None:
    manifest = Host(NO_POLICY).find(ID).manifest
    enum = manifest.parameters["properties"]["callbacks"]["items"]["properties"]["event"]["enum"]
    assert sorted(enum) == sorted(NAMES)


def test_commands_before_and_after_are_those_of_start_and_success(tmp_path: Path) -> None:
    both = {"preCommands": ["a", "b"], "postCommands": ["c"]}
    start, end = ("taskStarts", "a\nb\n", "fail"), ("taskSucceeds", "c\n", "fail")
    assert planned(tmp_path, {"parameters": both}, both) == [start, end, start, end]


def test_in_extras_they_are_those_of_start_and_success_too(tmp_path: Path) -> None:
    extra = {"plugin": "cmd", "parameters": {"preCommands": ["a"], "postCommands": ["b"]}}
    path = write_job(tmp_path, job(extras={"com.microsoft.pai.runtimeplugin": [extra]}))
    result = cli("plan", path, "--json", "--task", "worker/0")
    steps = json.loads(result.stdout)["steps"]
    events = ("taskStarts", "taskSucceeds")
    own = [(step["phase"], step["script"]) for step in steps if step["phase"] in events]
    assert own == [("taskStarts", "a\n"), ("taskSucceeds", "b\n")]


@pytest.mark.parametrize(("code", "expected"), [(0, ["after", "last"]), (5, ["last"])])
def test_commands_after_do_not_run_after_a_command_that_failed_and_callbacks_for_the_exit_do(
    tmp_path: Path, code: int, expected: list[str]
) -> None:
    parameters = {"postCommands": ["echo after"], "callbacks": [callback("taskExits", "echo last")]}
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "parameters": parameters}]}
    document = job(worker={"commands": [f"exit {code}"]}, extras=extras)
    assert cli("run", write_job(tmp_path, document), "--out", tmp_path / "run").returncode == code
    said = runtime_log(tmp_path / "run/worker/0")
    assert [line for line in said if line in ("after", "last")] == expected


def test_callbacks_for_one_event_are_scripts_of_their_own_in_the_order_they_are_written(
    tmp_path: Path,
) -> None:
    callbacks = [
        callback("taskExits", "exit 1"),
        callback("taskStarts", "start 1"),
        callback("containerStart", "start 2"),
        callback("containerExit", "exit 2"),
        callback("taskStarts", "start 3"),
    ]
    fields = {"preCommands": ["before"], "callbacks": callbacks}
    assert [script for _, script, _ in planned(tmp_path, fields)] == [
        "before\n",
        "start 1\n",
        "start 2\n",
        "start 3\n",
        "exit 1\n",
        "exit 2\n",
    ]


def test_a_run_executes_them_in_that_order_each_in_a_shell_of_its_own(tmp_path: Path) -> None:
    prerequisite = {
        "name": "mine",
        "type": "script",
        "callbacks": [
            callback("taskStarts", "cd /", "f() { echo f; }", "export A=1 B=2", "if true; then", "pwd", "fi"),
            callback(
                "containerStart", '[ "$PWD" != / ] && echo elsewhere', "type f 2>&1 || echo no f", "echo $A$B"
            ),
            callback("taskSucceeds", "echo succeeded $A"),
            callback("taskFails", "echo failed"),
            callback("containerExit", "echo exited $B"),
        ],
    }
    document = job(
        prerequisites=[prerequisite], worker={"prerequisites": ["mine"], "commands": ["echo $A$B"]}
    )
    result = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert (result.returncode, result.stdout) == (0, "12\n"), result.stderr
    said = runtime_log(tmp_path / "run/worker/0")
    own = [line for line in said if not line.startswith("[") and "not found" not in line]
    assert own == ["/", "elsewhere", "no f", "12", "succeeded 1", "exited 2"]


def test_a_callbacks_failure_policy_is_its_own_or_that_of_the_prerequisite(tmp_path: Path) -> None:
    policies = (None, "fail", "ignore")
    pairs = [(own, of_use) for own in policies for of_use in policies]

    def given(policy: str | None) -> dict[str, str]:
        return {"failurePolicy": policy} if policy else {}

    each = [
        {"callbacks": [callback("taskStarts", f"{own} {of_use}", **given(own))], **given(of_use)}
        for own, of_use in pairs
    ]
    assert planned(tmp_path, *each) == [
        ("taskStarts", f"{own} {of_use}\n", own or of_use or "fail") for own, of_use in pairs
    ]


@pytest.mark.parametrize(
    ("own", "status", "expected"), [("fail", 240, ["one"]), ("ignore", 0, ["one", "after", "two"])]
)
def test_a_callback_that_fails_is_followed_by_what_its_failure_policy_says(
    tmp_path: Path, own: str, status: int, expected: list[str]
) -> None:
    prerequisite = {
        "name": "mine",
        "type": "script",
        "callbacks": [
            callback("taskStarts", "echo one", "false", "echo after", failurePolicy=own),
            callback("taskStarts", "echo two"),
        ],
    }
    document = job(prerequisites=[prerequisite], worker={"prerequisites": ["mine"]})
    result = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert result.returncode == status
    said = runtime_log(tmp_path / "run/worker/0")
    assert [line for line in said if not line.startswith("[")] == expected


@pytest.mark.parametrize(
    ("event", "command", "status", "policy"),
    [
        ("taskStarts", "true", 240, "fail"),
        ("taskStarts", "true", 0, "ignore"),
        ("taskSucceeds", "true", 0, "fail"),
        ("taskFails", "exit 4", 4, "fail"),
        ("taskExits", "true", 0, "ignore"),
    ],
)
def test_a_failure_on_any_event_is_told_unless_it_is_ignored(
    tmp_path: Path, event: str, command: str, status: int, policy: str
) -> None:
    prerequisite = {
        "name": "mine",
        "type": "script",
        "failurePolicy": policy,
        "callbacks": [callback(event, "echo one", "( exit 3 )", "echo after", "exit 5")],
    }
    document = job(prerequisites=[prerequisite], worker={"prerequisites": ["mine"], "commands": [command]})
    result = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run")
    assert result.returncode == status
    task = tmp_path / "run" / "worker" / "0"
    log = (task / "logs" / "runtime.log").read_text()
    code = 3 if policy == "fail" else 5
    assert f"{event} of 'mine' (com.microsoft.pai.runtimeplugin.cmd" in log
    assert f"ended with exit code {code}{', ignored by its failurePolicy' * (policy == 'ignore')}\n" in log
    assert ("] after\n" in log) == (policy == "ignore")
    record = yaml.safe_load((task / "exit.yaml").read_text())
    told = [(each["phase"], each["exitCode"]) for each in record.get("callbackFailures", [])]
    assert told == ([(event, 3)] if policy == "fail" and event != "taskStarts" else [])


def test_any_other_property_is_there_for_references(tmp_path: Path) -> None:
    fields = {
        "mountPoint": "/data",
        "parameters": {"size": 3, "deep": {"list": [1]}},
        "callbacks": [callback("taskStarts", "df <% this.mountPoint %> <% this.parameters.size %>")],
    }
    assert planned(tmp_path, fields) == [("taskStarts", "df /data 3\n", "fail")]


JOB = """\
protocolVersion: 2
name: test
type: job
prerequisites:
- {{name: image, type: dockerimage, uri: example/image}}
- name: mine
  type: script
  plugin: cmd
{fields}
taskRoles:
  worker:
    dockerImage: image
    prerequisites: [mine]
    resourcePerInstance: {{cpu: 1, memoryMB: 100, gpu: 0}}
    commands: ['true']
"""


MISTAKES = [
    (
        "  callbacks:\n  - event: taskStart\n    commands: [a]",
        "10:12",
        "callbacks[0].event",
        ['found "taskStart"', "expected one of taskStarts, ", "did you mean taskStarts?"],
    ),
    (
        "  callbacks:\n  - event: containerexits\n    commands: [a]",
        "10:12",
        "callbacks[0].event",
        ["did you mean containerExits?"],
    ),
    ("  callbacks:\n  - event: 3\n    commands: [a]", "10:12", "callbacks[0].event", ["found 3"]),
    (
        "  callbacks:\n  - event: taskStarts\n    commands: a",
        "11:15",
        "callbacks[0].commands",
        ['found "a"', "expected a list of shell commands"],
    ),
    (
        "  callbacks:\n  - event: taskStarts\n    commands: [a, 1]",
        "11:19",
        "callbacks[0].commands[1]",
        ["found 1", "expected a shell command"],
    ),
    ("  callbacks:\n  - commands: [a]", "10:5", "callbacks[0]", ["missing field 'event'"]),
    ("  callbacks:\n  - event: taskStarts", "10:5", "callbacks[0]", ["missing field 'commands'"]),
    (
        "  callbacks:\n  - event: taskStarts\n    command: [a]",
        "11:5",
        "callbacks[0].command",
        ["unknown field", "did you mean commands?"],
    ),
    (
        "  callbacks:\n  - event: taskStarts\n    commands: [a]\n    failurePolicy: warn",
        "12:20",
        "callbacks[0].failurePolicy",
        ['found "warn"', "expected one of fail, ignore"],
    ),
    ("  callbacks: {event: taskStarts}", "9:14", "callbacks", ["expected a list of callbacks"]),
    ("  callbacks: [a]", "9:15", "callbacks[0]", ["expected a callback", "event", "commands"]),
    ("  preCommands: a", "9:16", "preCommands", ["expected a list of shell commands"]),
    ("  parameters:\n    postCommands: [[a]]", "10:20", "postCommands[0]", ["expected a shell command"]),
    ("  parameters:\n    preCommands: {}", "10:18", "preCommands", ["expected a list of shell commands"]),
]


def test_a_mistake_in_the_parameters_is_said_with_its_place_before_anything_runs(tmp_path: Path) -> None:
    paths = [
        write_job(tmp_path, JOB.format(fields=fields), f"{number}.yaml")
        for number, (fields, *_) in enumerate(MISTAKES)
    ]
    validated = cli_each(*(("validate", path) for path in paths))
    ran = cli_each(*(("run", path, "--out", tmp_path / "run") for path in paths))
    for (_, place, field, words), path, result in zip(MISTAKES, paths, validated, strict=True):
        assert result.returncode == 1
        lines = [line for line in result.stderr.splitlines() if line.startswith(f"{path}:{place}: error: ")]
        assert lines, result.stderr
        assert any(f"{field}: " in line and all(word in line for word in words) for line in lines), lines
    assert [result.returncode for result in ran] == [2] * len(MISTAKES)
    assert not (tmp_path / "run").exists()


def test_every_mistake_is_said_at_once(tmp_path: Path) -> None:
    fields = (
        "  callbacks:\n  - event: taskStart\n    commands: a\n  - commands: [a]\n"
        "  - event: taskExits\n    commands: [1]"
    )
    result = cli("validate", write_job(tmp_path, JOB.format(fields=fields)))
    places = {line.split(": error")[0].partition("job.yaml")[2] for line in result.stderr.splitlines()[:-1]}
    assert places == {":10:12", ":11:15", ":12:5", ":14:16"}


COMMANDS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8), max_size=4
)
CALLBACKS = st.lists(
    st.fixed_dictionaries(
        {"event": st.sampled_from(sorted(NAMES)), "commands": COMMANDS},
        optional={"failurePolicy": st.sampled_from(["fail", "ignore"])},
    ),
    max_size=5,
)


@settings(deadline=None)
@given(before=COMMANDS, after=COMMANDS, callbacks=CALLBACKS)
def test_each_event_has_the_scripts_of_its_callbacks_with_the_commands_as_written(
    before: list[str], after: list[str], callbacks: list[dict[str, Any]]
) -> None:
    steps = contribution(preCommands=before, postCommands=after, callbacks=callbacks).steps
    around = {"taskStarts": before, "taskSucceeds": after}
    for event in EVENTS:
        found = [(step.script, step.failure_policy) for step in steps if step.event == event]
        expected = [
            ("\n".join(each["commands"]) + "\n", each.get("failurePolicy"))
            for each in callbacks
            if NAMES[each["event"]] == event
        ]
        if around.get(event):
            expected.insert(0, ("\n".join(around[event]) + "\n", None))
        assert found == expected
