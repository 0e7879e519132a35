"""Definitions as prerequisites of a job: where a job names them, what it gives them, and what they may do."""

from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import Problem
from pai_runtime.definitions import NoDefinition
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY, read_policy
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.show import plan_lines
from pai_task.plan import Plan
from tests.definition_harness import MemoryLibrary, plan, problems
from tests.job_harness import load
from tests.plugin_factory import Site, policy_rule, write_policy
from tests.support import callback, job

ECHO = """\
name: echo
type: data
plugin: cmd
plugin_params:
  callbacks:
    - event: taskStarts
      commands:
        - echo {{ text }}
template_variables:
  - name: text
"""
FETCH = """\
name: fetch
type: script
callbacks:
  - event: taskStarts
    commands: [echo fetching]
"""
TYPED = """\
name: typed
type: data
plugin: cmd
path: /data/typed
callbacks:
  - event: taskStarts
    commands: [echo typed]
"""
FILES = {"echo.yaml": ECHO, "fetch.yaml": FETCH, "typed.yaml": TYPED}


def echo(text: Any = "hello", name: str = "marketplace://name/echo") -> dict[str, Any]:
    """The definition ``echo`` with a value for its variable."""
    return {"name": name, "template_variables": {"text": text}}


def aliases(*items: dict[str, Any]) -> dict[str, Any]:
    return {"extras": {"reference_prerequisites": list(items)}}


def own(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "callbacks": [callback("taskStarts", f"echo own {name}")], **fields}


def worker(*required: Any, **fields: Any) -> dict[str, Any]:
    """A job whose role requires these."""
    return job(worker={"prerequisites": list(required)}, **fields)


def starts(made: Plan) -> list[str]:
    return [str(step.script).strip() for step in made.steps_of("taskStarts")]


def codes(found: Any) -> list[str]:
    return [problem.code for problem in found]


def only(found: Any) -> Problem:
    (problem,) = found
    assert isinstance(problem, Problem)
    return problem


# Where a definition may be named


@pytest.mark.process
@pytest.mark.parametrize(
    ("document", "said"),
    [
        (worker("marketplace://name/fetch"), ["echo fetching"]),
        (worker({"name": "marketplace://script/fetch"}), ["echo fetching"]),
        (worker("./fetch.yaml"), ["echo fetching"]),
        (worker(echo()), ["echo hello"]),
        (job(worker={"data": "marketplace://data/typed"}), ["echo typed"]),
        (job(worker={"script": "marketplace://name/fetch"}), ["echo fetching"]),
        (
            worker("a", prerequisites=[own("a", require=["marketplace://name/fetch", echo()])]),
            ["echo fetching", "echo hello", "echo own a"],
        ),
        (
            worker("both", **aliases({"name": "both", "require": [echo(), "marketplace://name/fetch"]})),
            ["echo hello", "echo fetching"],
        ),
        (
            worker("echo", **aliases({"name": "echo", "require": [echo("alias")]})),
            ["echo alias"],
        ),
        (
            worker(
                "outer",
                prerequisites=[own("a")],
                **aliases(
                    {"name": "outer", "require": ["inner", "a"]}, {"name": "inner", "require": [echo()]}
                ),
            ),
            ["echo hello", "echo own a"],
        ),
        (
            job(
                worker={"data": "set", "commands": ["ls <% $data.path %>"]},
                **aliases({"name": "set", "require": ["marketplace://name/typed"]}),
            ),
            ["echo typed"],
        ),
    ],
)
def test_a_definition_may_be_required_wherever_a_prerequisite_may_be_named(
    tmp_path: Path, document: dict[str, Any], said: list[str]
) -> None:
    files = {**FILES, "./fetch.yaml": FETCH}
    assert problems(tmp_path, document, files) == ()
    assert starts(plan(tmp_path, document, files)) == said


@pytest.mark.process
def test_a_role_refers_to_the_properties_of_a_definition_as_to_those_of_its_own_data(tmp_path: Path) -> None:
    worker = {"data": "marketplace://data/typed", "commands": ["ls <% $data.path %>"]}
    assert plan(tmp_path, job(worker=worker), FILES).command.script == "ls /data/typed\n"


@pytest.mark.parametrize(
    ("document", "code", "field"),
    [
        (job(worker={"dockerImage": "marketplace://name/echo"}), "unsupported-reference", "dockerImage"),
        (job(worker={"data": "marketplace://name/fetch"}), "wrong-kind", "data"),
        (
            job(worker={"data": "both"}, **aliases({"name": "both", "require": ["a", "b"]})),
            "ambiguous-name",
            "data",
        ),
        (
            job(worker={"prerequisites": ["marketplace://name/fetch"], "data": "s"}),
            "no-such-prerequisite",
            "data",
        ),
        (worker("marketplace://name/image"), "unsupported-reference", "prerequisites[0]"),
        (worker("marketplace://nonsense"), "wrong-reference", "prerequisites[0]"),
        (worker("marketplace:/name/fetch"), "wrong-reference", "prerequisites[0]"),
        (worker("marketplace://name/two words"), "wrong-reference", "prerequisites[0]"),
        (worker("marketplace://name/nothing"), "no-such-definition", "prerequisites[0]"),
        (worker("nothing", {"name": "marketplace://name/fetch"}), "no-such-prerequisite", "prerequisites[0]"),
        (worker(echo(name="a")), "unknown-variable", "prerequisites[0].template_variables"),
        (worker("fetch", "marketplace://name/fetch"), "no-such-prerequisite", "prerequisites[0]"),
        (worker({"template_variables": {}}), "missing-field", "prerequisites[0]"),
        (worker({"name": "a", "variables": {}}), "unknown-field", "prerequisites[0].variables"),
    ],
)
def test_what_no_definition_can_be_is_an_error_where_it_is_named(
    tmp_path: Path, document: dict[str, Any], code: str, field: str
) -> None:
    document["prerequisites"] += [own("a"), own("b"), own("s", type="script")]
    files = {**FILES, "image.yaml": "name: image\ntype: dockerimage\nuri: ubuntu\n"}
    errors = [each for each in problems(tmp_path, document, files) if each.severity == "error"]
    assert (only(errors).code, only(errors).field) == (code, f"taskRoles.worker.{field}")


def test_a_password_in_a_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, worker("https://alice:hunter2@example.org/x.yaml"), FILES))
    assert problem.code == "wrong-reference"
    assert "hunter2" not in f"{problem} {problem.found}"


def test_without_a_library_each_reference_is_an_error(tmp_path: Path) -> None:
    document = worker("marketplace://name/fetch", "https://example.org/x.yaml")
    assert codes(load(tmp_path, document)) == ["definition-unavailable"] * 2


# Values of template variables


@pytest.mark.process
@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("plain", "echo plain"),
        (0.10, "echo 0.1"),
        (True, "echo true"),
        ("<% $parameters.size %>", "echo 12"),
        ("a <% $parameters.size %> b", "echo a 12 b"),
        ("<% $parameters.inner %>", "echo 12 inside"),
        ("{{ text }}", "echo {{ text }}"),
        ("<% this.path %>", None),
        ("<% $data.path %>", None),
        ("<% $parameters.missing %>", None),
        (["a", "list"], None),
    ],
)
def test_references_of_the_job_in_a_value_are_resolved_where_they_stand(
    tmp_path: Path, written: Any, said: str | None
) -> None:
    parameters = {"size": 12, "inner": "<% $parameters.size %> inside"}
    document = worker(echo(written), parameters=parameters)
    if said is None:
        assert codes(problems(tmp_path, document, FILES))[0] in ("reference-to-nothing", "wrong-template")
    else:
        assert starts(plan(tmp_path, document, FILES)) == [said]


@pytest.mark.process
def test_a_value_in_a_prerequisite_of_the_job_may_be_one_of_its_own_properties(tmp_path: Path) -> None:
    document = worker("a", prerequisites=[own("a", path="/here", require=[echo("<% this.path %>")])])
    assert starts(plan(tmp_path, document, FILES)) == ["echo /here", "echo own a"]


@pytest.mark.process
def test_a_value_that_looks_like_a_reference_stays_text(tmp_path: Path) -> None:
    document = worker(echo("<% $parameters.text %>"), parameters={"text": "<%= this.x %> <% $other.y %>"})
    assert starts(plan(tmp_path, document, FILES)) == ["echo <%= this.x %> <% $other.y %>"]


@pytest.mark.process
def test_a_list_that_is_given_keeps_its_items(tmp_path: Path) -> None:
    many = """\
name: many
callbacks:
  - event: taskStarts
    commands: {{ commands }}
template_variables: [commands]
"""
    document = worker(
        {"name": "marketplace://name/many", "template_variables": {"commands": "<% $parameters.list %>"}},
        parameters={"list": ["echo one", "echo '<% $data %>'"]},
    )
    assert codes(problems(tmp_path, document, {"many.yaml": many})) == ["reference-to-nothing"]
    document["parameters"]["list"][1] = "echo two"
    assert starts(plan(tmp_path, document, {"many.yaml": many})) == ["echo one\necho two"]


@pytest.mark.process
def test_a_secret_that_is_given_is_in_the_plan_as_a_placeholder(tmp_path: Path) -> None:
    document = worker(echo("<% $secrets.token %>"), secrets={"token": "correct-horse"})
    made = plan(tmp_path, document, FILES)
    assert starts(made) == ["echo \0token\0"]
    assert "correct-horse" not in str(made)


@pytest.mark.parametrize("name", ["$parameters.x", "$secrets.x", "$data.x", "$script.x", "$output.x"])
def test_a_definition_has_only_what_it_is_given(tmp_path: Path, name: str) -> None:
    greedy = f"name: greedy\ncallbacks:\n  - event: taskStarts\n    commands: ['echo <% {name} %>']\n"
    document = worker("marketplace://name/greedy", parameters={"x": 1}, secrets={"x": "value"})
    found = problems(tmp_path, document, {"greedy.yaml": greedy})
    assert set(codes(found)) == {"reference-to-nothing"}
    position = found[0].position
    assert position
    assert (position.file, position.line, len(position.way)) == ("greedy.yaml", 4, 1)


@pytest.mark.process
def test_a_definition_cannot_make_a_reference_of_what_it_is_given(tmp_path: Path) -> None:
    sly = ECHO.replace("echo {{ text }}", "echo '<% $secrets.{{ text }} %> <% {{ text }} %>'")
    document = worker(echo("token"), secrets={"token": "correct-horse"})
    said = starts(plan(tmp_path, document, {"echo.yaml": sly}))
    assert said == ["echo '<% $secrets.token %> <% token %>'"]


# What definitions are to each other


@pytest.mark.process
def test_properties_are_inherited_through_what_a_definition_requires(tmp_path: Path) -> None:
    files = {
        "base.yaml": "name: base\npath: /base/{{ sub }}\ntemplate_variables: [sub]\n",
        "middle.yaml": "name: middle\nrequire:\n  - {name: base, template_variables: {sub: '{{ sub }}'}}\n"
        "template_variables: [sub]\n",
        "top.yaml": "name: top\nrequire:\n  - {name: middle, template_variables: {sub: x}}\ncallbacks:\n"
        "  - event: taskStarts\n    commands: ['ls <% this.path %>']\n",
    }
    assert starts(plan(tmp_path, worker("marketplace://name/top"), files)) == ["ls /base/x"]


@pytest.mark.process
def test_a_property_may_be_given_on_as_a_value(tmp_path: Path) -> None:
    outer = (
        "name: outer\npath: /outer\nrequire:\n"
        "  - {name: echo, template_variables: {text: '<% this.path %>'}}\n"
    )
    document = worker("marketplace://name/outer")
    assert starts(plan(tmp_path, document, {**FILES, "outer.yaml": outer})) == ["echo /outer"]


@pytest.mark.process
def test_a_definition_is_there_once_for_each_set_of_values(tmp_path: Path) -> None:
    document = worker(echo("a"), echo("b"), echo("a", "./echo.yaml"), echo("a"))
    library = MemoryLibrary(FILES)
    library.files["./echo.yaml"] = library.files["echo.yaml"]
    made = plan(tmp_path, document, library)
    assert starts(made) == ["echo a", "echo b"]
    assert [use.name for use in made.uses][:2] == ["echo", "echo-2"]


@pytest.mark.process
def test_values_that_are_written_differently_are_different(tmp_path: Path) -> None:
    document = worker(echo("1"), echo(1), echo("01"))
    assert starts(plan(tmp_path, document, FILES)) == ["echo 1", "echo 1", "echo 01"]


@pytest.mark.process
def test_names_are_unique_among_all_prerequisites(tmp_path: Path) -> None:
    document = worker("echo", echo("a"), echo("b"), prerequisites=[own("echo"), own("echo-2")])
    document["taskRoles"]["worker"]["prerequisites"].append("echo-2")
    made = plan(tmp_path, document, FILES)
    names = [use.name for use in made.uses if use.plugin.endswith(".cmd")]
    assert names == ["echo", "echo-3", "echo-4", "echo-2"]


@pytest.mark.process
def test_an_unused_alias_is_a_warning_and_nothing_is_looked_up_for_it(tmp_path: Path) -> None:
    library = MemoryLibrary(FILES)
    document = job(**aliases({"name": "later", "require": ["marketplace://name/nothing"]}))
    assert codes(problems(tmp_path, document, library)) == ["unused-prerequisite"]
    assert library.asked == []


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([{"name": "a", "require": ["b"]}, {"name": "b", "require": ["a"]}], "circle"),
        ([{"name": "a", "require": ["a"]}], "circle"),
        ([{"name": "a", "require": []}, {"name": "a", "require": []}], "duplicate-name"),
        ([{"name": "a", "require": ["missing"]}], "no-such-prerequisite"),
        ([{"name": "a", "require": []}, {"name": "own", "require": []}], "duplicate-name"),
        ([{"name": "a"}], "missing-field"),
        ([{"name": "a", "require": [], "plugin": "cmd"}], "unknown-field"),
    ],
)
def test_what_an_alias_cannot_be_is_an_error(tmp_path: Path, items: list[dict[str, Any]], code: str) -> None:
    document = worker("a", "own", prerequisites=[own("own")], **aliases(*items))
    assert codes(each for each in problems(tmp_path, document, FILES) if each.severity == "error") == [code]


# Prerequisites of the job itself


@pytest.mark.process
def test_a_prerequisite_of_the_job_may_call_its_parameters_as_definitions_do(tmp_path: Path) -> None:
    given = {"callbacks": [callback("taskStarts", "echo here")]}
    document = worker("a", prerequisites=[{"name": "a", "plugin": "cmd", "plugin_params": given}])
    assert starts(plan(tmp_path, document, {})) == ["echo here"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"parameters": {"x": 1}, "plugin_params": {"x": 1}}, "duplicate-field"),
        ({"template_variables": [{"name": "x"}]}, "template-variables-in-job"),
    ],
)
def test_what_a_prerequisite_of_the_job_cannot_have(
    tmp_path: Path, fields: dict[str, Any], code: str
) -> None:
    assert codes(problems(tmp_path, worker("a", prerequisites=[own("a", **fields)]), {})) == [code]


# Plans


@pytest.mark.process
def test_a_plan_shows_by_which_references_each_step_came(tmp_path: Path) -> None:
    middle = "name: middle\nrequire:\n  - name: echo\n    template_variables: {text: x}\n"
    document = worker("marketplace://name/middle")
    made = plan(tmp_path, document, {**FILES, "middle.yaml": middle})
    use = next(use for use in made.uses if use.name == "echo")
    assert (use.source, use.via[0]) == ("echo.yaml:1:1", "middle.yaml:3:11")
    assert len(use.via) == 2
    assert use.via[1].startswith(f"{tmp_path / 'job.yaml'}:")
    assert f"    via {' ← '.join(use.via)}" in list(plan_lines(made))
    assert Plan.from_json(made.to_json()) == made


@pytest.mark.process
def test_a_plan_is_the_same_each_time(tmp_path: Path) -> None:
    document = worker(echo("b"), echo("a"), "marketplace://name/fetch", {"name": "marketplace://name/typed"})
    first = plan(tmp_path, document, FILES)
    assert plan(tmp_path, document, dict(reversed(FILES.items()))) == first


@pytest.mark.process
def test_a_field_of_a_definition_that_looks_misspelt_is_warned_of(tmp_path: Path) -> None:
    library = MemoryLibrary({"a.yaml": "name: a\ntype: data\nplugn: cmd\n"})
    found = problems(tmp_path, worker("marketplace://name/a"), library)
    assert [(each.severity, each.field, each.suggestion) for each in found] == [
        ("warning", "plugn", "plugin")
    ]


# Which distribution finds them


def test_two_distributions_that_find_definitions_are_both_named_unless_a_policy_allows_only_one(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finds_none = "@hookimpl\ndef pai_definitions(): return None\n"
    made = site.add("org.finds", finds_none, hooks=["pai_definitions"])
    monkeypatch.syspath_prepend(site.folder)
    with pytest.raises(NoDefinition, match=r"distributions: org-finds, pai-definitions;") as error:
        JobDefinitions(Host(NO_POLICY), None)({})
    assert error.value.code == "definition-unavailable"
    chosen = Host(read_policy(write_policy(tmp_path, policy_rule(made))))
    with pytest.raises(NoDefinition, match=made.distribution):
        JobDefinitions(chosen, None)({})
