"""From prerequisites and extras to the uses and the command of a role."""

import subprocess
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_document.problems import InvalidInput
from pai_runtime.job.order import dependencies_first
from pai_task.plan import OnPreemption
from tests.job_harness import build, checked_roles, command, load, parameters, uses
from tests.support import callback, job

STARTS = [callback("taskStarts", "true")]


def script(name: str, *require: str, **fields: Any) -> dict[str, Any]:
    """A prerequisite that does something."""
    return {"name": name, "type": "script", "require": list(require), "callbacks": STARTS, **fields}


def names(document: dict[str, Any], role: str = "worker") -> list[str]:
    found, problems = uses(build(document), role)
    assert not problems
    return [use.name for use in found]


def extras(*items: dict[str, Any]) -> dict[str, Any]:
    return {"com.microsoft.pai.runtimeplugin": list(items)}


# Order


@pytest.mark.parametrize(
    ("require", "named", "order"),
    [
        ({"a": "", "b": ""}, "a b", "a b"),
        ({"a": "", "b": ""}, "b a", "b a"),
        ({"a": "", "b": "a"}, "b", "a b"),
        ({"a": "", "b": "a"}, "b a", "a b"),
        ({"a": "b", "b": ""}, "a", "b a"),
        ({"a": "b c", "b": "", "c": ""}, "a", "b c a"),
        ({"a": "c b", "b": "", "c": ""}, "a", "c b a"),
        ({"a": "b c", "b": "d", "c": "d", "d": ""}, "a", "d b c a"),
        ({"a": "b", "b": "c", "c": ""}, "c a", "c b a"),
        ({"a": "", "b": "", "c": "a", "d": "a b"}, "d c", "a b d c"),
        ({"a": "", "b": ""}, "a a", "a"),
        ({"a": "b b", "b": ""}, "a", "b a"),
        ({"a": "", "b": ""}, "", ""),
    ],
)
def test_uses_come_once_each_after_what_they_require_and_otherwise_as_named(
    require: dict[str, str], named: str, order: str
) -> None:
    prerequisites = [script(name, *required.split()) for name, required in require.items()]
    for written in (prerequisites, prerequisites[::-1]):
        assert names(job(prerequisites=written, worker={"prerequisites": named.split()})) == order.split()


_GRAPHS = st.integers(1, 12).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, count - 1), max_size=4), min_size=count, max_size=count)
)


@given(_GRAPHS)
def test_any_prerequisites_without_a_circle_come_after_what_they_require(graph: list[list[int]]) -> None:
    require = {
        str(number): [str(other) for other in others if other < number] for number, others in enumerate(graph)
    }
    order, cycle = dependencies_first(reversed(require), require.__getitem__)
    assert cycle is None
    assert sorted(order) == sorted(require)
    places = {name: place for place, name in enumerate(order)}
    assert all(places[other] < places[name] for name, others in require.items() for other in others)


@given(_GRAPHS)
def test_a_circle_that_is_named_is_one_and_none_is_overlooked(graph: list[list[int]]) -> None:
    require = {str(number): list(map(str, others)) for number, others in enumerate(graph)}
    order, cycle = dependencies_first(require, require.__getitem__)
    assert sorted(order) == sorted(require)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(after in require[before] for before, after in pairwise(cycle))
    else:
        places = {name: place for place, name in enumerate(order)}
        assert all(places[other] < places[name] for name, others in require.items() for other in others)


@pytest.mark.parametrize("length", [5000, 60_000])
def test_a_chain_of_any_length_is_followed_looking_at_each_link_once(length: int) -> None:
    looked: list[str] = []

    def require(name: str) -> Sequence[str]:
        looked.append(name)
        return [str(int(name) + 1)] if int(name) + 1 < length else []

    order, cycle = dependencies_first(["0", "1", str(length // 2)], require)
    assert cycle is None
    assert order == [str(number) for number in reversed(range(length))]
    assert len(looked) == length


def test_a_chain_of_2000_prerequisites_is_checked_and_inherits_from_its_end(tmp_path: Path) -> None:
    links = [script("p0", folder="/data")]
    links += [script(f"p{number}", f"p{number - 1}") for number in range(1, 2000)]
    links[-1]["text"] = "<% this.folder %>"
    document = job(prerequisites=links, worker={"prerequisites": ["p1999"]})
    assert load(tmp_path, document) == ()
    job_ = build(document)
    found, _ = uses(job_)
    assert [use.name for use in found] == [f"p{number}" for number in range(2000)]
    assert found[-1].parameters["text"] == "/data"


def test_a_circle_of_2000_prerequisites_is_named(tmp_path: Path) -> None:
    links = [script(f"p{number}", f"p{(number + 1) % 2000}") for number in range(2000)]
    (problem,) = load(tmp_path, job(prerequisites=links))
    assert problem.code == "circle"
    assert (problem.found or "").startswith("p0 → p1 → p2 → ")


def test_roles_that_share_many_prerequisites_cannot_make_a_job_grow_beyond_bounds() -> None:
    links = [script("p0"), *(script(f"p{number}", f"p{number - 1}") for number in range(1, 1000))]
    document = job(prerequisites=links, worker={"prerequisites": ["p999"]})
    role = document["taskRoles"]["worker"]
    document["taskRoles"] = {f"r{number}": role for number in range(1000)}
    with pytest.raises(InvalidInput, match="500000 values"):
        checked_roles(build(document))


# Which plugin, with which parameters


@pytest.mark.parametrize(
    ("fields", "plugin"),
    [
        ({"callbacks": STARTS}, "com.microsoft.pai.runtimeplugin.cmd"),
        ({"callbacks": []}, "com.microsoft.pai.runtimeplugin.cmd"),
        ({"plugin": "ssh"}, "com.microsoft.pai.runtimeplugin.ssh"),
        ({"plugin": "org.example.x", "callbacks": STARTS}, "org.example.x"),
    ],
)
def test_a_prerequisite_uses_its_plugin_or_cmd_where_callbacks_are_given(
    fields: dict[str, Any], plugin: str
) -> None:
    document = job(prerequisites=[{"name": "u", "type": "data", **fields}], worker={"prerequisites": ["u"]})
    (use,) = uses(build(document))[0]
    assert use.plugin == plugin


@pytest.mark.parametrize(
    "fields",
    [{"uri": "x"}, {"uri": ["x"], "anything": 1}, {"type": "dockerimage", "uri": "x", "plugin": "ssh"}],
)
def test_a_passive_prerequisite_is_no_use(fields: dict[str, Any]) -> None:
    document = job(prerequisites=[{"name": "u", "type": "data", **fields}], worker={"prerequisites": ["u"]})
    assert names(document) == []


def test_what_a_passive_prerequisite_requires_is_used() -> None:
    passive = {"name": "u", "type": "data", "uri": "x", "require": ["a"]}
    assert names(job(prerequisites=[passive, script("a")], worker={"prerequisites": ["u"]})) == ["a"]


def test_the_plugin_is_given_all_properties_and_no_field_of_the_protocol() -> None:
    fields = {
        "plugin": "x",
        "description": "d",
        "version": 1,
        "contributor": "c",
        "protocolVersion": 2,
        "failurePolicy": "ignore",
        "uri": "u",
        "mount": "/m",
        "callbacks": STARTS,
        "parameters": {"mount": "below", "more": [1]},
    }
    document = job(prerequisites=[script("u", "b", **fields), script("b")], worker={"prerequisites": ["u"]})
    use = uses(build(document))[0][1]
    assert use.parameters == {"mount": "/m", "more": [1], "uri": "u", "callbacks": STARTS}
    assert (use.name, use.failure_policy) == ("u", "ignore")


def test_every_use_knows_where_it_and_its_parameters_stand() -> None:
    source = """\
prerequisites:
- name: image
- name: u
  plugin: x
  a: 1
  parameters:
    b: 2
taskRoles: {worker: {prerequisites: [u]}}
extras:
  com.microsoft.pai.runtimeplugin:
  - plugin: y
    parameters:
      c: [3]
"""
    job_ = build(source)
    first, second = uses(job_)[0]

    def place(use: Any, *path: str | int) -> str:
        return str(use.locate(path).position)

    assert (str(first.position), str(second.position)) == ("job.yaml:3:3", "job.yaml:11:5")
    assert (place(first, "a"), place(first, "b"), place(first, "none")) == (
        "job.yaml:5:6",
        "job.yaml:7:8",
        "job.yaml:3:3",
    )
    assert place(second, "c", 0) == "job.yaml:13:11"


# Roles


@pytest.mark.parametrize("kind", ["data", "script", "output"])
def test_what_a_role_calls_its_data_script_or_output_is_used_when_it_has_callbacks(kind: str) -> None:
    document = job(
        prerequisites=[script("last"), script("named", "base", type=kind), script("base")],
        worker={kind: "named", "prerequisites": ["last"]},
    )
    assert names(document) == ["base", "named", "last"]


def test_data_comes_before_script_before_output_before_the_list() -> None:
    document = job(
        prerequisites=[
            script(name, type=kind)
            for name, kind in zip("abcd", ["x", "output", "script", "data"], strict=True)
        ],
        worker={"prerequisites": ["a", "c"], "output": "b", "data": "d", "script": "c"},
    )
    assert names(document) == ["d", "c", "b", "a"]


def test_each_role_uses_only_what_it_names() -> None:
    document = job(prerequisites=[script("a"), script("b", "a")], worker={"prerequisites": ["a"]})
    role = document["taskRoles"]["worker"]
    document["taskRoles"] |= {
        "both": {**role, "prerequisites": ["b"]},
        "none": {**role, "prerequisites": None},
    }
    assert [names(document, each) for each in ("worker", "both", "none")] == [["a"], ["a", "b"], []]


def test_extras_come_after_prerequisites_in_their_order() -> None:
    document = job(
        prerequisites=[script("a")],
        worker={"prerequisites": ["a"]},
        extras=extras(
            {"plugin": "z"}, {"plugin": "org.example.y", "failurePolicy": "ignore"}, {"plugin": "z"}
        ),
    )
    found, _ = uses(build(document))
    assert [use.name for use in found] == ["a", "z", "y", "z"]
    assert [use.plugin for use in found[1:3]] == ["com.microsoft.pai.runtimeplugin.z", "org.example.y"]
    assert [use.failure_policy for use in found] == ["fail", "fail", "ignore", "fail"]


@pytest.mark.parametrize(
    ("taskroles", "used_by"),
    [
        (["worker"], ["worker"]),
        (["other"], ["other"]),
        (["other", "worker"], ["worker", "other"]),
        ([], []),
        (None, ["worker", "other"]),
    ],
)
def test_taskroles_says_which_roles_an_extra_is_for(taskroles: list[str] | None, used_by: list[str]) -> None:
    document = job(extras=extras({"plugin": "x", "taskroles": taskroles}))
    document["taskRoles"]["other"] = document["taskRoles"]["worker"]
    assert [role for role in ("worker", "other") if names(document, role) == ["x"]] == used_by


def test_an_extra_without_taskroles_is_for_every_role() -> None:
    document = job(extras=extras({"plugin": "x"}))
    document["taskRoles"]["other"] = document["taskRoles"]["worker"]
    assert names(document) == names(document, "other") == ["x"]


# The command


def deployed(
    own: list[str], before: list[str] | None = None, after: list[str] | None = None
) -> dict[str, Any]:
    around = {"preCommands": before, "postCommands": after}
    commands = {key: value for key, value in around.items() if value is not None}
    return job(
        worker={"commands": own},
        deployments=[{"name": "prod", "taskRoles": {"worker": commands}}],
        defaults={"deployment": "prod"},
    )


def run(shell: str, script_: str) -> tuple[int, str]:
    ended = subprocess.run([shell, "-c", script_], capture_output=True, text=True, check=False, timeout=60)
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


@pytest.fixture(params=["bash", pytest.param("dash", marks=pytest.mark.needs("dash"))])
def shell(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], tuple[int, str]]:
    """Runs the command of a job's role."""
    return lambda document: run(request.param, command(build(document)))


Runner = Callable[[dict[str, Any]], tuple[int, str]]


def test_commands_are_trimmed_and_joined_by_newlines() -> None:
    assert command(build(job(worker={"commands": ["  a ", "b\n\n", "c\nd"]}))) == "a\nb\nc\nd\n"


@pytest.mark.process
def test_commands_are_one_shell(shell: Runner) -> None:
    lines = [
        "cd /",
        "f() {",
        "echo in $PWD $X;",
        "}",
        "X=1",
        "if true; then",
        "f",
        "else",
        "exit 9",
        "fi",
        "( exit 3 )",
    ]
    assert shell(job(worker={"commands": lines})) == (3, "in / 1\n")


@pytest.mark.process
def test_the_commands_of_a_deployment_are_in_the_same_shell(shell: Runner) -> None:
    document = deployed(["echo $X", "Y=own"], ["cd /", "X=pre"], ["echo $X $Y $PWD"])
    assert shell(document) == (0, "pre\npre own /\n")


@pytest.mark.process
@pytest.mark.parametrize("options", ["set -u", "set -e", "set -eu"])
def test_options_that_the_commands_set_do_no_harm_to_what_follows(shell: Runner, options: str) -> None:
    assert shell(deployed([options, "true"], after=["echo after"])) == (0, "after\n")


@pytest.mark.process
def test_only_pre_commands_leave_the_status_as_it_is(shell: Runner) -> None:
    assert shell(deployed(["( exit 4 )"], before=["echo pre"])) == (4, "pre\n")


def test_a_deployment_that_is_not_chosen_or_not_for_the_role_adds_nothing() -> None:
    document = deployed(["own"], ["pre"], ["post"])
    changes: list[dict[str, Any]] = [
        {"defaults": {}},
        {"defaults": {"deployment": "none"}},
        {"deployments": [{"name": "prod", "taskRoles": {}}]},
        {"deployments": [{"name": "prod", "taskRoles": {"worker": {}}}]},
        {"deployments": None},
    ]
    for change in changes:
        assert command(build({**document, **change})) == "own\n"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"time": "2m"}, OnPreemption(120, "SIGTERM")),
        ({"time": "1.5s", "signal": "SIGUSR1"}, OnPreemption(1.5, "SIGUSR1")),
        ({"time": "1h", "commands": ["save", "wait"]}, OnPreemption(3600, "", "save\nwait\n")),
        ({"time": "9s", "signal": "SIGINT", "commands": ["a"]}, OnPreemption(9, "SIGINT", "a\n")),
    ],
)
def test_what_precedes_the_end_of_a_command_is_in_its_plan(
    wanted: dict[str, object], expected: OnPreemption
) -> None:
    (role,), problems = checked_roles(build(job(extras={"onPreemption": wanted})))
    assert not problems
    assert role.command.on_preemption == expected


@pytest.mark.parametrize(
    ("extras", "expected"), [({"nounset": True}, True), ({"nounset": False}, False), ({}, False)]
)
def test_whether_an_unset_variable_is_an_error_is_part_of_the_command(
    extras: dict[str, Any], *, expected: bool
) -> None:
    (role,), problems = checked_roles(build(job(extras=extras)))
    assert not problems
    assert role.command.nounset is expected


def test_a_command_says_where_it_and_its_deployment_stand() -> None:
    (role,), problems = checked_roles(build(deployed(["own"], ["pre"])))
    assert not problems
    own, _, deployment = role.command.source.partition(", deployment 'prod' ")
    assert own.startswith("job.yaml:")
    assert deployment.startswith("job.yaml:")


def test_all_that_a_use_is_given_is_its_own() -> None:
    """Parameters of one use are not those of the prerequisite of another."""
    document = job(
        prerequisites=[script("a", x="<% this.name %>"), script("b", "a", x="<% this.name %>")],
        worker={"prerequisites": ["b"]},
    )
    assert [parameters(build(document), name)["x"] for name in "ab"] == ["a", "b"]
