"""The rules beyond the schema, and many faults at once."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pai_task.names import framework_name
from tests.job_harness import build, command, compared_words, load, load_file, uses
from tests.support import callback, job, write_job

ROLE = job()["taskRoles"]["worker"]


def roles(**each: dict[str, Any]) -> dict[str, Any]:
    return {"taskRoles": {name: {**ROLE, **fields} for name, fields in each.items()}}


def script(name: str, *require: str | int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": "script", "require": list(require), **fields}


@pytest.mark.parametrize(
    "key",
    [
        "Auth",
        "auths",
        "AUTH",
        "auht",
        "aut",
        "oauth",
        "authentication",
        "Authorization",
        "credentials",
        "login",
    ],
)
def test_a_docker_image_whose_login_is_misspelt_is_refused(tmp_path: Path, key: str) -> None:
    image = {"name": "i", "type": "dockerimage", "uri": "x", key: {"username": "u"}}
    (problem,) = load(tmp_path, job(prerequisites=[image], worker={"dockerImage": "i"}))[:1]
    assert (problem.code, problem.field, problem.suggestion) == (
        "unknown-field",
        f"prerequisites[1].{key}",
        "auth",
    )


@pytest.mark.parametrize("key", ["author", "authors", "authority", "path", "oauth", "logins_at"])
def test_other_properties_of_a_docker_image_are_only_unknown(tmp_path: Path, key: str) -> None:
    for value in ("y", {"name": "y"}):
        image = {"name": "i", "type": "dockerimage", "uri": "x", key: value}
        problems = load(tmp_path, job(prerequisites=[image]))
        assert [problem.code for problem in problems] == ["unused-prerequisite", "unknown-field"]
        assert {problem.severity for problem in problems} == {"warning"}


def test_a_property_named_like_a_login_is_one_of_other_prerequisites(tmp_path: Path) -> None:
    document = job(prerequisites=[script("a", authentication="x", Auth="y")], worker={"prerequisites": ["a"]})
    assert load(tmp_path, document) == ()


def test_a_field_that_a_prerequisite_was_probably_meant_to_have_is_warned_of(tmp_path: Path) -> None:
    misspelt = {"plugn": "cmd", "requireStorage": [], "faliurePolicy": "fail", "path": "/x", "mode": "r"}
    document = job(prerequisites=[script("own", **misspelt)], worker={"prerequisites": ["own"]})
    found = load(tmp_path, document)
    meant = ["plugin", "requireStorages", "failurePolicy"]
    assert {each.severity for each in found} == {"warning"}
    assert [each.suggestion for each in found] == meant


@pytest.mark.parametrize(
    ("role", "name"),
    [("ps_server", "psserver"), ("taskrole_1", "taskrole1"), ("Worker", "worker"), ("_", "")],
)
def test_the_cluster_knows_a_role_by_lower_case_letters_and_digits(role: str, name: str) -> None:
    assert framework_name(role) == name


@pytest.mark.parametrize(
    "names", [("ps_server", "psserver"), ("a", "A"), ("task_1", "task1"), ("_x", "x_"), ("aB_c", "Ab_C")]
)
def test_two_roles_that_the_cluster_calls_by_one_name_are_refused(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    (problem,) = load(tmp_path, {**job(), **roles(**{name: {} for name in names})})
    assert (problem.code, problem.field) == ("same-role-name", f"taskRoles.{names[1]}")
    assert f"'{framework_name(names[0])}'" in problem.message


def test_a_role_of_which_the_cluster_keeps_no_letter_is_refused(tmp_path: Path) -> None:
    (problem,) = load(tmp_path, {**job(), **roles(_={})})
    assert (problem.code, problem.field) == ("wrong-role-name", "taskRoles._")


def test_roles_that_differ_for_the_cluster_are_accepted(tmp_path: Path) -> None:
    assert load(tmp_path, {**job(), **roles(ps_server={}, ps_server2={}, server={})}) == ()


_DEPLOYMENT = {"name": "production", "taskRoles": {}}


@pytest.mark.parametrize(
    ("document", "field", "found", "meant"),
    [
        (
            job(worker={"prerequisites": ["justecho_wrong"]}, prerequisites=[script("justecho")]),
            "taskRoles.worker.prerequisites[0]",
            "'justecho_wrong'",
            "justecho",
        ),
        (
            job(prerequisites=[script("a", "mnst"), script("mnist")]),
            "prerequisites[1].require[0]",
            "'mnst'",
            "mnist",
        ),
        (job(worker={"dockerImage": "imagee"}), "taskRoles.worker.dockerImage", "'imagee'", "image"),
        (
            job(worker={"dockerImage": "image2"}, prerequisites=[script("image2")]),
            "taskRoles.worker.dockerImage",
            "'image2'",
            "image",
        ),
        *(
            (
                job(worker={kind: "mnst"}, prerequisites=[script("mnist", type=kind)]),
                f"taskRoles.worker.{kind}",
                "'mnst'",
                "mnist",
            )
            for kind in ("data", "script", "output")
        ),
        (
            job(deployments=[_DEPLOYMENT], defaults={"deployment": "production2"}),
            "defaults.deployment",
            "'production2'",
            "production",
        ),
        (job(defaults={"deployment": "x"}), "defaults.deployment", "'x'", None),
        (
            job(deployments=[{"name": "d", "taskRoles": {"workers": {}}}]),
            "deployments[0].taskRoles.workers",
            "'workers'",
            "worker",
        ),
        (
            job(extras={"com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "taskroles": ["Worker"]}]}),
            "extras.com.microsoft.pai.runtimeplugin[0].taskroles[0]",
            "'Worker'",
            "worker",
        ),
        (job(worker={"prerequisites": ["zzz"]}), "taskRoles.worker.prerequisites[0]", "'zzz'", None),
    ],
)
def test_a_name_of_nothing_is_refused_with_what_was_probably_meant(
    tmp_path: Path, document: dict[str, Any], field: str, found: str, meant: str | None
) -> None:
    (problem,) = load(tmp_path, document)
    assert problem.code.startswith("no-such-")
    assert (problem.field, problem.found, problem.suggestion) == (field, found, meant)


def test_what_stands_beside_a_wrong_item_keeps_its_place(tmp_path: Path) -> None:
    """A fault in a list does not move what comes after it."""
    path = write_job(
        tmp_path,
        job(
            prerequisites=[7, script("a", 8, "nope")],
            worker={"prerequisites": [9, "none"]},
            extras={"com.microsoft.pai.runtimeplugin": [10, {"plugin": "cmd", "taskroles": [11, "nobody"]}]},
        ),
    )
    lines = path.read_text().splitlines()
    problems = load(tmp_path, path.read_text())
    assert len(problems) == 8
    for problem in problems:
        assert problem.position is not None
        assert problem.found is not None
        assert problem.found.strip("'") in lines[problem.position.line - 1]
        assert f"[{0 if problem.found == '9' else 1}]" in problem.field or problem.found in ("8", "10", "11")


@pytest.mark.parametrize(
    ("prerequisites", "cycle"),
    [
        ([script("a", "a")], "a → a"),
        ([script("a", "b"), script("b", "a")], "a → b → a"),
        ([script("x", "a"), script("a", "b"), script("b", "c"), script("c", "a")], "a → b → c → a"),
        ([script("a"), script("b", "a", "c"), script("c", "a", "b")], "b → c → b"),
    ],
)
def test_a_circle_of_prerequisites_is_named(
    tmp_path: Path, prerequisites: list[dict[str, Any]], cycle: str
) -> None:
    for used in ([], [prerequisites[0]["name"]]):
        (problem,) = load(tmp_path, job(prerequisites=prerequisites, worker={"prerequisites": used}))
        assert (problem.code, problem.found) == ("circle", cycle)
        assert problem.field.endswith(".require")


def test_a_diamond_is_no_circle(tmp_path: Path) -> None:
    diamond = [script("a", "b", "c"), script("b", "d"), script("c", "d"), script("d")]
    assert load(tmp_path, job(prerequisites=diamond, worker={"prerequisites": ["a"]})) == ()


# One name, several types


def items(*names_and_types: str) -> list[dict[str, Any]]:
    """Prerequisites, such as ``a data``, each with callbacks that say its type."""
    found = []
    for name, kind in (each.split() for each in names_and_types):
        rest = {"uri": "x"} if kind == "dockerimage" else {"callbacks": [callback("taskStarts", kind)]}
        found.append({"name": name, "type": kind, **rest})
    return found


@pytest.mark.parametrize(
    ("known", "role", "used"),
    [
        (
            ["a data", "a script", "a output"],
            {"data": "a", "script": "a", "output": "a"},
            "data script output",
        ),
        (["a output", "a script", "a data"], {"data": "a"}, "data"),
        (["a storage", "a data"], {"data": "a"}, "data"),
        (["a storage", "a script"], {"data": "a"}, "storage"),
        (["a dockerimage", "a script"], {"dockerImage": "a", "prerequisites": ["a"]}, "script"),
        (["image data"], {"prerequisites": ["image"]}, "data"),
    ],
)
def test_prerequisites_of_one_name_are_told_apart_by_their_types(
    tmp_path: Path, known: list[str], role: dict[str, Any], used: str
) -> None:
    document = job(prerequisites=items(*known), worker=role)
    problems = load(tmp_path, document)
    assert all(problem.code == "unused-prerequisite" for problem in problems)
    found, _ = uses(build(document))
    assert [use.parameters["callbacks"][0]["commands"] for use in found] == [[kind] for kind in used.split()]


def test_a_reference_means_the_prerequisite_of_its_type() -> None:
    document = job(
        prerequisites=[
            {"name": "a", "type": kind, "uri": f"of {kind}"} for kind in ("script", "data", "output")
        ],
        worker={"data": "a", "output": "a", "commands": ["<% $data.uri %>, <% $output.uri %>"]},
    )
    assert command(build(document)) == "of data, of output\n"


@pytest.mark.parametrize(
    ("known", "role", "field"),
    [
        (["a data", "a script"], {"prerequisites": ["a"]}, "taskRoles.worker.prerequisites[0]"),
        (["a storage", "a custom"], {"data": "a"}, "taskRoles.worker.data"),
    ],
)
def test_a_name_that_may_mean_several_is_refused_with_their_types(
    tmp_path: Path, known: list[str], role: dict[str, Any], field: str
) -> None:
    (problem,) = load(tmp_path, job(prerequisites=items(*known), worker=role))
    assert (problem.code, problem.field, problem.found) == ("ambiguous-name", field, "'a'")
    assert all(each.split()[1] in problem.message for each in known)


def test_a_requirement_that_may_mean_several_is_refused(tmp_path: Path) -> None:
    known = [*items("a data", "a output"), script("b", "a")]
    (problem,) = load(tmp_path, job(prerequisites=known, worker={"prerequisites": ["b"]}))
    assert (problem.code, problem.field) == ("ambiguous-name", "prerequisites[3].require[0]")


@pytest.mark.parametrize("kind", ["data", "script", "output"])
def test_what_a_role_calls_its_data_is_no_script_or_image(tmp_path: Path, kind: str) -> None:
    for other in {"data", "script", "output", "dockerimage"} - {kind}:
        problems = load(tmp_path, job(prerequisites=items(f"a {other}", f"aa {kind}"), worker={kind: "a"}))
        (problem,) = [each for each in problems if each.severity == "error"]
        assert (problem.code, problem.field) == ("no-such-prerequisite", f"taskRoles.worker.{kind}")
        assert f"of type {other})" in problem.message
        assert problem.found == "'a'"


def test_a_circle_of_one_name_says_the_types(tmp_path: Path) -> None:
    circle = [{**items("a data")[0], "require": ["b"]}, *items("a dockerimage"), script("b", "a")]
    (problem,) = load(tmp_path, job(prerequisites=circle))
    assert (problem.code, problem.found) == ("circle", "a (data) → b → a (data)")


def test_two_prerequisites_of_one_name_and_type_are_refused_with_both_positions(tmp_path: Path) -> None:
    (problem,) = load(tmp_path, job(prerequisites=[script("a"), script("a")]))
    assert (problem.code, problem.field) == ("duplicate-name", "prerequisites[2].name")
    assert f"{tmp_path / 'job.yaml'}:8:9" in problem.message
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (11, 9)


def test_two_deployments_of_one_name_are_refused(tmp_path: Path) -> None:
    (problem,) = load(tmp_path, job(deployments=[_DEPLOYMENT, _DEPLOYMENT]))
    assert (problem.code, problem.field) == ("duplicate-name", "deployments[1].name")


def test_a_docker_image_has_no_callbacks(tmp_path: Path) -> None:
    image = {"name": "i", "type": "dockerimage", "uri": "x", "callbacks": [callback("taskStarts", "true")]}
    (problem,) = load(tmp_path, job(prerequisites=[image]))
    assert (problem.code, problem.field) == ("image-with-callbacks", "prerequisites[1].callbacks")


TEN_FAULTS = """\
protocolVersion: 3
name: ten faults
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: example/image
  - name: justecho
    type: script
    require: [justecho]
    text: <% $parameters.missing %>
parameter: {x: 1}
taskRoles:
  worker:
    dockerImage: imag
    prerequisites: [justecho_wrong]
    instances: 0
    resourcePerInstance: {cpu: 1, memoryMB: 100}
    commands: [5]
defaults:
  deployment: prod
"""


def test_ten_faults_give_ten_problems_in_the_order_of_the_file(tmp_path: Path) -> None:
    problems = load(tmp_path, TEN_FAULTS)
    assert all(
        problem.position and problem.position.file == str(tmp_path / "job.yaml") for problem in problems
    )
    assert [
        (problem.position.line, problem.position.column, problem.field, problem.found, problem.suggestion)
        for problem in problems
        if problem.position
    ] == [
        (1, 18, "protocolVersion", "3", None),
        (2, 7, "name", '"ten faults"', None),
        (10, 14, "prerequisites[1].require", "justecho → justecho", None),
        (11, 11, "prerequisites[1].text", None, None),
        (12, 1, "parameter", None, "parameters"),
        (15, 18, "taskRoles.worker.dockerImage", "'imag'", "image"),
        (16, 21, "taskRoles.worker.prerequisites[0]", "'justecho_wrong'", "justecho"),
        (17, 16, "taskRoles.worker.instances", "0", None),
        (18, 26, "taskRoles.worker.resourcePerInstance", None, None),
        (19, 16, "taskRoles.worker.commands[0]", "5", "'5'"),
        (21, 15, "defaults.deployment", "'prod'", None),
    ][: len(problems)]
    assert len(problems) == 11
    assert [problem.expected for problem in problems[-3:-1]] == [
        "a whole number, at least 0",
        "a shell command",
    ]


def work(step: Callable[[], object]) -> int:
    """How many instructions of Python a step takes: the same on every run, however busy the machine is."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(before)
    return count


def chain(length: int) -> dict[str, Any]:
    """Each requires the one before it, and refers to a property of the first."""
    text = {"text": "<% this.folder %>"}
    links = [script("p0", folder="/x", **text)]
    links += [script(f"p{number}", f"p{number - 1}", **text) for number in range(1, length)]
    return job(prerequisites=links, worker={"prerequisites": [f"p{length - 1}"]})


def many_images(length: int) -> dict[str, Any]:
    images = [{"name": f"i{number}", "type": "dockerimage", "uri": "x"} for number in range(length)]
    return {
        **job(prerequisites=images),
        **roles(**{f"r{number}": {"dockerImage": f"i{number}"} for number in range(length)}),
    }


def many_deployments(length: int) -> dict[str, Any]:
    return job(deployments=[{"name": f"d{number}", "taskRoles": {}} for number in range(length)])


@pytest.mark.parametrize("kind", [chain, many_images, many_deployments])
def test_the_work_of_loading_grows_in_step_with_the_job(
    tmp_path: Path, kind: Callable[[int], dict[str, Any]]
) -> None:
    paths = [write_job(tmp_path, kind(length), f"{length}.yaml") for length in (10, 50, 100, 200)]
    _, small, middle, large = (work(lambda path=path: load_file(path)) for path in paths)  # type: ignore[misc]
    assert large - middle < 2.2 * (middle - small)


def test_thousands_of_unknown_names_are_all_reported_and_few_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = compared_words(monkeypatch)
    wrong = [
        script(f"p{number}", f"q{number}", text=f"<% $parameters.x{number} %>") for number in range(1000)
    ]
    problems = load(tmp_path, job(parameters={"y": 1}, prerequisites=wrong))
    assert len(problems) == 2000
    assert len(compared) <= 200


def test_a_very_long_name_does_not_fill_the_messages_about_others(tmp_path: Path) -> None:
    wrong = [script("p" * 100_000), *(script(f"a{number}", f"b{number}") for number in range(50))]
    problems = load(tmp_path, job(prerequisites=wrong))
    assert len(problems) == 51
    assert sum(len(str(problem)) for problem in problems) < 50 * 500
