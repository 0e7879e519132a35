"""References: what they mean, and that no value of theirs becomes syntax."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pai_document.problems import InvalidInput, Problem
from pai_runtime.job import budget
from pai_runtime.job.references import Renderer
from pai_runtime.job.secrets import as_placeholders
from pai_task.placeholders import placeholder
from tests.job_harness import build, command, command_problems, load, load_file, parameters, resolver, uses
from tests.support import callback, job, write_job


def with_command(text: str, **fields: Any) -> dict[str, Any]:
    """A job whose role runs `text`; it names ``d`` as its data, which requires ``base``."""
    data = {
        "name": "d",
        "type": "data",
        "uri": ["https://one", "https://two"],
        "version": 1.5,
        "require": ["base"],
        "parameters": {"shape": [1, [2, 3]], "deep": {"er": {"est": "x"}}},
    }
    base = {"name": "base", "type": "storage", "mount": "/mnt", "folder": "<% this.mount %>/<% this.name %>"}
    return job(
        prerequisites=[data, base],
        worker={"commands": [text], "data": "d", "script": "base"},
        **{
            "parameters": {
                "text": "resnet",
                "number": 32,
                "list": ["a", "b"],
                "nested": {"list": [[1, 2], [3]], "with-dash": "dash", "0": "zero"},
                "one": ["only"],
                "mixed": [None, True, "<% $parameters.text %>", ["x"]],
                "none": [],
                "maps": ["a", {"b": 1}],
                "nothing": None,
            },
            "secrets": {"token": "hunter2", "list": ["s-one", "s-two"], "map": {"a": {"b": "s-three"}}},
            **fields,
        },
    )


def rendered(text: str, **fields: Any) -> str:
    return command(build(with_command(text, **fields))).removesuffix("\n")


def fault(text: str) -> Problem:
    (problem,) = command_problems(build(with_command(text)))
    return problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<% $parameters.text %>", "resnet"),
        ("--n=<% $parameters.number %>,", "--n=32,"),
        ("<%$parameters.text%>", "resnet"),
        ("<%   $parameters  .  text   %>", "resnet"),
        ("<%\t$parameters.text\n%>", "resnet"),
        ("<% $parameters.list[1] %>", "b"),
        ("<% $parameters.list.1 %>", "b"),
        ("<% $parameters . list [ 1 ] %>", "b"),
        ("<% $parameters.nested.list[0][1] %>", "2"),
        ("<% $parameters.nested.list.1[0] %>", "3"),
        ("<% $parameters.nested.with-dash %>", "dash"),
        ("<% $parameters.nested.0 %>", "zero"),
        ("<% $parameters.one %>", "only"),
        ("<% $parameters.list %>", "a,b"),
        ("[<% $parameters.list %>]", "[a,b]"),
        ("<% $parameters.nested.list %>", "1,2,3"),
        ("[<% $parameters.mixed %>]", "[,true,resnet,x]"),
        ("[<% $parameters.none %>]", "[]"),
        ("<% $data.uri %>", "https://one,https://two"),
        ("<% $parameters.text[0] %>", "resnet"),
        ("[<% $parameters.nothing %>]", "[]"),
        ("<% $parameters.text %><% $parameters.text %>", "resnetresnet"),
        ("<% $data.name %> <% $data.type %> <% $data.version %>", "d data 1.5"),
        ("<% $data.uri[0] %> <% $data.uri.1 %>", "https://one https://two"),
        ("<% $data.shape[1][0] %>", "2"),
        ("<% $data.parameters.deep.er.est %>", "x"),
        ("<% $data.mount %>", "/mnt"),
        ("<% $data.folder %>", "/mnt/base"),
        ("<% $script.folder %> <% $script.name %>", "/mnt/base base"),
    ],
)
def test_a_reference_becomes_what_it_refers_to(text: str, expected: str) -> None:
    assert rendered(text) == expected


@pytest.mark.parametrize(
    "written", ["1.0", "1e-4", "0x1F", "true", "'007'", "007", "1_000", "yes", "~", "2001-01-01"]
)
def test_a_scalar_is_inserted_as_it_was_written(written: str) -> None:
    text = yaml.safe_dump(with_command("<% $parameters.x %>.", parameters=None))
    source = text.replace("parameters: null", f"parameters: {{x: {written}}}")
    assert command(build(source)) == {"~": ""}.get(written, written.strip("'")) + ".\n"


@pytest.mark.parametrize(
    "value",
    [1, 1.5, True, None, "text", [], {}, ["a", {"b": [None, 2]}], {"a": {"b": "<% not ours %>"}}],
)
@pytest.mark.parametrize("text", ["<% $parameters.x %>", " \n<%$parameters.x%>\n"])
def test_a_text_that_is_one_reference_becomes_the_value_of_its_type(value: Any, text: str) -> None:
    use = {
        "name": "u",
        "type": "script",
        "plugin": "cmd",
        "given": [text],
        "parameters": {"more": {"x": text}},
    }
    document = job(prerequisites=[use], parameters={"x": value}, worker={"prerequisites": ["u"]})
    found = parameters(build(document), "u")
    assert (found["given"], found["more"]) == ([value], {"x": value})
    assert type(found["given"][0]) is type(value)


OTHER = [
    "<%= x %>",
    "<%# comment %>",
    "<% foo %>",
    "<% foo.bar %>",
    "<%- x -%>",
    "<% if this.x > 1 { %>",
    "<% this.each(function() { %>",
    "<% end %>",
    "<%%>",
    "<% %>",
    "<%",
    "%>",
    "<% $parameters.text",
    "$parameters.text %>",
    "< % $parameters.text % >",
    "<% $x %>",
    "<% $row.name %>",
    "<% $data->{x} %>",
    "<% $x = 1 %>",
    "<% $x.map(1) %>",
    "{{ $parameters.text }}",
    "${parameters.text}",
]


@pytest.mark.parametrize("text", OTHER)
def test_other_text_between_the_same_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    assert rendered(f"a {text} b") == f"a {text} b"
    assert load(tmp_path, with_command(text)) == ()


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        '"quoted"',
        "a & b &amp; <b>",
        "<%= x %>",
        "%> <%",
        "}, 'added': 'key'",
        "a: b\n- c\n# d",
        "*alias !tag &anchor",
        "\\1 \\g<0> \\n",
        "$(touch x) `id` $HOME",
        "\x1b[31m\ttab é 😀 \u2028",
    ],
)
def test_a_value_never_becomes_syntax(value: str) -> None:
    document = with_command("<% $parameters.x %>|", parameters={"x": value, "number": 1})
    document["prerequisites"].append(
        {"name": "u", "type": "script", "plugin": "cmd", "a": "<% $parameters.x %>"}
    )
    document["taskRoles"]["worker"]["prerequisites"] = ["u"]
    assert command(build(document)) == f"{value}|\n"
    assert parameters(build(document), "u") == {"a": value}


def test_every_command_of_a_role_is_rendered_also_those_of_its_deployment() -> None:
    document = with_command("own <% $parameters.text %>")
    document["deployments"] = [
        {"name": "other", "taskRoles": {"worker": {"preCommands": ["not this"]}}},
        {
            "name": "prod",
            "taskRoles": {
                "worker": {"preCommands": ["<% $data.name %>"], "postCommands": ["<% $secrets.token %>"]}
            },
        },
    ]
    document["defaults"] = {"deployment": "prod"}
    lines = command(build(document)).splitlines()
    assert lines[:2] == ["d", "own resnet"]
    assert placeholder("token") in lines


def test_references_in_extras_are_resolved() -> None:
    extra = {"plugin": "x", "parameters": {"a": ["<% $parameters.number %>", "<% $data.name %>!"]}}
    document = with_command("true", extras={"com.microsoft.pai.runtimeplugin": [extra]})
    assert parameters(build(document), "x") == {"a": [32, "d!"]}


# this


def chain(*fields: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Prerequisites ``p0``, ``p1`` …, each requiring the next; the role uses the first."""
    prerequisites = [
        {
            "name": f"p{number}",
            "type": "script",
            "plugin": "cmd",
            "require": [f"p{number + 1}"] if number + 1 < len(fields) else [],
            **each,
        }
        for number, each in enumerate(fields)
    ]
    return job(prerequisites=prerequisites, worker={"prerequisites": ["p0"]}, **more)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([{"t": "<% this.a %>", "a": "own"}], "own"),
        ([{"t": "<% this.a %>", "parameters": {"a": "own"}}], "own"),
        ([{"t": "<% this.parameters.a %>", "parameters": {"a": "own"}}], "own"),
        ([{"t": "<% this.parameters.a %>", "a": "own"}], "own"),
        ([{"t": "<% this.a %>", "a": "beside", "parameters": {"a": "below"}}], "beside"),
        ([{"t": "<% this.parameters %>", "parameters": {"a": 1}}], {"a": 1}),
        ([{"t": "<% this.name %> <% this.type %>"}], "p0 script"),
        ([{"t": "<% this.a[1].b %>", "a": [1, {"b": "deep"}]}], "deep"),
        ([{"t": "<% this.a %>"}, {"a": "next"}], "next"),
        ([{"t": "<% this.a %>"}, {}, {}, {"a": "far"}], "far"),
        ([{"t": "<% this.a %>"}, {"a": "near"}, {"a": "far"}], "near"),
        ([{"t": "<% this.parameters.a %>"}, {}, {"parameters": {"a": "far"}}], "far"),
        ([{"t": "<% this.a %>", "b": "mine"}, {"a": "<% this.b %>", "b": "its"}], "its"),
        ([{"t": "<% this.a %>"}, {"a": "<% this.name %>"}], "p1"),
        ([{"t": "<% this.a %>"}, {"a": "<% this.b %>"}, {"b": "<% this.c %>"}, {"c": 7}], 7),
        ([{"t": "<% this.a %>", "a": None}, {"a": "next"}], None),
        ([{"t": "<% this.uri %>", "uri": "x"}, {"uri": "y"}], "x"),
    ],
)
def test_this_means_a_property_of_the_prerequisite_or_of_what_it_requires(
    fields: list[dict[str, Any]], expected: Any
) -> None:
    assert parameters(build(chain(*fields)), "p0")["t"] == expected


def test_of_two_that_are_required_the_first_that_has_a_property_gives_it() -> None:
    document = chain({"t": "<% this.a %>", "require": ["x", "y"]})
    document["prerequisites"] += [
        {"name": "y", "type": "storage", "a": "of y"},
        {"name": "x", "type": "storage", "require": ["z"]},
        {"name": "z", "type": "storage", "a": "of z"},
    ]
    assert parameters(build(document), "p0")["t"] == "of z"


def test_a_prerequisite_inherits_no_field_that_the_protocol_gives_a_meaning() -> None:
    _, problems = uses(build(chain({"t": "<% this.description %>"}, {"description": "of p1"})))
    assert [(problem.code, problem.field) for problem in problems] == [
        ("reference-to-nothing", "prerequisites[1].t")
    ]


def test_what_a_role_calls_its_data_is_known_to_its_prerequisites() -> None:
    document = chain({"t": "<% $data.uri[0] %>"})
    document["prerequisites"].append({"name": "d", "type": "data", "uri": "x"})
    role = document["taskRoles"]["worker"]
    document["taskRoles"] = {"worker": {**role, "data": "d"}, "other": role}
    assert parameters(build(document), "p0")["t"] == "x"
    (problem,) = uses(build(document), "other")[1]
    assert (problem.code, problem.field) == ("reference-to-nothing", "prerequisites[1].t")


@pytest.mark.parametrize("uri", ["https://x", ["https://x"]])
@pytest.mark.parametrize("text", ["<% $data.uri %>.", "<% $data.uri[0] %>.", "<% $data.uri.0 %>."])
def test_a_uri_may_be_a_text_or_a_list_and_be_referred_to_as_either(uri: Any, text: str) -> None:
    document = with_command(text)
    document["prerequisites"][1]["uri"] = uri
    assert command(build(document)) == "https://x.\n"


# References to nothing


@pytest.mark.parametrize(
    ("text", "reason", "meant"),
    [
        ("<% $parameters.txt %>", "$parameters has no 'txt'", "text"),
        ("<% $parameters.Text %>", "$parameters has no 'Text'", "text"),
        ("<% $parameters.zzz %>", "$parameters has no 'zzz'", None),
        ("<% $parameters.nested.lst %>", "$parameters.nested has no 'lst'", "list"),
        (
            "<% $parameters.list[2] %>",
            "$parameters.list has no index [2]; it is a list of 2 items, counted from 0",
            None,
        ),
        (
            "<% $parameters.list.b %>",
            "$parameters.list has no index [b]; it is a list of 2 items, counted from 0",
            None,
        ),
        (
            "<% $parameters.list.-1 %>",
            "$parameters.list has no index [-1]; it is a list of 2 items, counted from 0",
            None,
        ),
        ("<% $parameters.number.x %>", "$parameters.number has no 'x'", None),
        ("<% $parameters.text[1] %>", "$parameters.text has no '1'", None),
        ("<% $parameters.maps %>", "it is a mapping, and a string can contain only a single value", None),
        (
            "<% $parameters.nested %>",
            "it is a mapping, and a string can contain only a single value",
            None,
        ),
        ("<% $parameters %>", "it is a mapping, and a string can contain only a single value", None),
        (
            "<% $parameters.list[-1] %>",
            "expected names or indexes after $parameters, such as .name or [0]",
            None,
        ),
        (
            "<% $parameters['text'] %>",
            "expected names or indexes after $parameters, such as .name or [0]",
            None,
        ),
        ("<% $parameters. %>", "expected names or indexes after $parameters, such as .name or [0]", None),
        ("<% $data.uri[0 %>", "expected names or indexes after $data, such as .name or [0]", None),
        (
            "<% $secrets.tokn %>",
            "neither the job nor a secrets file has a secret 'tokn' (--secrets FILE)",
            "token",
        ),
        ("<% $secrets.map.x %>", "$secrets.map has no 'x'", None),
        (
            "<% $secrets.list[7] %>",
            "$secrets.list has no index [7]; it is a list of 2 items, counted from 0",
            None,
        ),
        ("<% $secrets %>", "'$secrets' needs the name of a secret", None),
        ("<% $data %>", "'$data' needs the name of a property", None),
        ("<% $data.uris %>", "neither 'd' nor any prerequisite that it requires has 'uris'", "uri"),
        ("<% $output.uri %>", "the task role 'worker' has no output", None),
        ("<% this.name %>", "'this' is available in a prerequisite only", None),
        ("<% $parameter.text %>", "unknown name '$parameter'", "$parameters"),
        ("<% $Secrets.token %>", "unknown name '$Secrets'", "$secrets"),
    ],
)
def test_a_reference_to_nothing_is_refused_with_the_reason_and_what_was_probably_meant(
    text: str, reason: str, meant: str | None
) -> None:
    problem = fault(f"echo '{text}'")
    assert problem.message == f"cannot resolve {text}: {reason}"
    assert problem.field == "taskRoles.worker.commands[0]"
    assert problem.suggestion == meant


@pytest.mark.parametrize("index", ["[{}]", ".{}"])
def test_an_index_of_any_length_is_refused(index: str) -> None:
    text = f"<% $parameters.list{index.format('9' * 5000)} %>"
    assert text[:400] in fault(text).message


def test_a_job_without_parameters_says_so() -> None:
    (problem,) = command_problems(build(with_command("<% $parameters.x %>", parameters=None)))
    assert problem.message.endswith("the job has no parameters")


PLACES = """\
protocolVersion: 2
name: test
type: job
prerequisites:
- {name: image, type: dockerimage, uri: x}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}
    commands:
    - é 😀 <% $parameters.a %>
    - |
      first <%= left %>
        indented <% $parameters.b %> <% $parameters.c %>
      again <% $parameters.b %>
    - >-
      folded
      <% $parameters.d %>
    - 'single ''quoted'' <% $parameters.e %>'
    - "double \\t <% $parameters.f %>"
    - "over two <% $parameters.g
      %> lines"
    - &anchor <% $parameters.h %>
    - plain over
      two <% $parameters.i %>
parameters: {}
"""


def test_a_reference_to_nothing_has_its_own_place_also_inside_a_block() -> None:
    found = command_problems(build(PLACES))
    places = {
        (problem.message.split()[3].rpartition(".")[2], problem.position.line, problem.position.column)
        for problem in found
        if problem.position
    }
    lines = PLACES.splitlines()
    expected = {
        (letter, number, line.index(f"<% $parameters.{letter} %>") + 1)
        for number, line in enumerate(lines, 1)
        for letter in "abcdefhi"
        if f"<% $parameters.{letter} %>" in line
    }
    assert len(expected) == 9
    # It is not written as one piece: then the text in which it stands has to do.
    assert places == expected | {("g", 21, 7)}


def test_a_fault_in_a_prerequisite_is_reported_once_where_it_is_written(tmp_path: Path) -> None:
    """However many others refer to it."""
    document = chain({"t": "<% this.u %>", "more": "<% this.u %>/x"}, {"u": "<% $parameters.none %>"})
    document["parameters"] = {}
    document["taskRoles"]["worker"].update(script="p1", commands=["<% $script.u %>"])
    job_, problems = load_file(write_job(tmp_path, document))
    assert {(problem.field, problem.message) for problem in problems} == {
        ("prerequisites[2].u", "cannot resolve <% $parameters.none %>: $parameters has no 'none'")
    }
    assert {problem.field for problem in command_problems(job_)} == {"prerequisites[2].u"}


@pytest.mark.parametrize(
    "fields",
    [
        [{"t": "<% this.t %>"}],
        [{"t": "a <% this.t %>"}],
        [{"t": ["<% this.t[0] %>"]}],
        [{"t": ["<% this.t %>"]}],
        [{"t": "<% this.u %>", "u": "<% this.t %>"}],
        [{"t": "<% this.u %>", "u": "x<% this.v %>", "v": "<% this.t %>"}],
        [{"t": "<% this.u %>"}, {"u": {"v": "<% this.u %>"}}],
    ],
)
def test_a_circle_of_references_is_refused(tmp_path: Path, fields: list[dict[str, Any]]) -> None:
    (problem,) = load(tmp_path, chain(*fields))
    assert problem.code == "reference-to-nothing"
    assert ": it refers to itself: prerequisites[" in problem.message


@pytest.fixture
def low_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million values take seconds to come to be, a hundredth of them do as well."""
    monkeypatch.setattr(budget, "MAX_VALUES", budget.MAX_VALUES // 100)


@pytest.mark.usefixtures("low_bound")
def test_a_long_way_of_references_is_refused(tmp_path: Path) -> None:
    steps = {f"s{number}": [[[f"<% this.s{number + 1} %>"]]] for number in range(2000)}
    problems = load(tmp_path, chain({**steps, "s2000": "end"}))
    assert problems
    assert {problem.code for problem in problems} == {"reference-to-nothing", "job-too-large"}
    assert any("more than 50 references" in problem.message for problem in problems)


@pytest.mark.usefixtures("low_bound")
@pytest.mark.parametrize(
    "document",
    [
        chain({"s0": "x", **{f"s{number + 1}": f"<% this.s{number} %>" * 10 for number in range(20)}}),
        chain({"s0": "", **{f"s{number + 1}": [f"<% this.s{number} %>"] * 10 for number in range(20)}}),
        with_command(
            "true",
            parameters={
                "s0": "x",
                **{f"s{number + 1}": f"<% $parameters.s{number} %>" * 10 for number in range(20)},
            },
        ),
    ],
    ids=["texts", "lists", "parameters"],
)
def test_references_cannot_make_a_job_grow_beyond_bounds(tmp_path: Path, document: dict[str, Any]) -> None:
    assert_too_large(tmp_path, document)


def test_what_many_references_lead_to_is_rendered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a file of 3 KB takes seconds until it is refused, or is rendered though it is small enough."""
    found: list[str] = []
    find = Renderer._find

    def counting(self: Renderer, root: str, written: str) -> Any:
        found.append(written)
        return find(self, root, written)

    monkeypatch.setattr(Renderer, "_find", counting)
    for levels in (5, 11):
        names = {f"s{number}": f"<% $parameters.s{number + 1} %>" * 10 for number in range(levels)}
        document = with_command("<% $parameters.s0 %>", parameters={**names, f"s{levels}": "x"})
        if levels == 5:
            assert command(build(document)) == "x" * 10**5 + "\n"
        else:
            assert_too_large(tmp_path, document)
    assert len(found) < 1000


@pytest.mark.parametrize("depth", [49, 50, 51, 52])
@pytest.mark.parametrize("first", ["deepest", "nearest"])
def test_how_deep_references_may_be_nested_does_not_depend_on_which_is_rendered_first(
    tmp_path: Path, depth: int, first: str
) -> None:
    names = [f"s{number}" for number in range(depth)]
    values = {name: f"<% $parameters.{below} %>" for name, below in pairwise(names)}
    listed = list({**values, names[-1]: "end"}.items())
    document = with_command(
        "<% $parameters.s0 %>", parameters=dict(listed if first == "nearest" else listed[::-1])
    )
    problems = load(tmp_path, document)
    assert any("more than 50 references" in problem.message for problem in problems) == (depth > 50)


@pytest.mark.parametrize(
    "document",
    [
        with_command("<% $parameters.x %>" * 10_000, parameters={"x": "y" * 1_000_000}),
        with_command("<% $parameters.x.y %>" * 10_000, parameters={"x": {"y": "z" * 1_000_000}}),
    ],
    ids=["one long value", "the same, deeper"],
)
def test_nor_can_long_values(tmp_path: Path, document: dict[str, Any]) -> None:
    assert_too_large(tmp_path, document)


def assert_too_large(folder: Path, document: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        load_file(write_job(folder, document))
    (problem,) = raised.value.problems
    assert problem.code == "job-too-large"
    assert problem.position is not None


def test_a_very_long_name_does_not_fill_the_messages(tmp_path: Path) -> None:
    faults = {f"f{number}": "<% this.nothing %>" for number in range(50)}
    document = job(prerequisites=[{"name": "p" * 100_000, "type": "script", **faults}])
    problems = load(tmp_path, document)
    assert [problem.code for problem in problems].count("reference-to-nothing") == 50
    assert sum(len(str(problem)) for problem in problems) < 50 * 2000


# Parameters are templates


@pytest.mark.parametrize(
    ("parameters_", "text", "expected"),
    [
        ({"a": "<% $parameters.b %>/x", "b": "y"}, "<% $parameters.a %>", "y/x"),
        ({"a": "<% $parameters.b %>", "b": "<% $parameters.c %>", "c": 3}, "-<% $parameters.a %>", "-3"),
        ({"a": {"b": ["<% $parameters.c %>!"]}, "c": 3}, "<% $parameters.a.b[0] %>", "3!"),
        (
            {"a": "<% $parameters.m.x %>", "m": {"x": 1, "y": "<% $parameters.a %>"}},
            "<% $parameters.a %>",
            "1",
        ),
        ({"a": "<% $data.name %>"}, "<% $parameters.a %>", "d"),
        (
            {"a": "<", "b": "<% $parameters.a %>% $parameters.c %>", "c": "no"},
            "<% $parameters.b %>",
            "<% $parameters.c %>",
        ),
        ({"a": "<% $secrets.token %>"}, "x<% $parameters.a %>", f"x{placeholder('token')}"),
    ],
)
def test_references_in_a_parameter_are_resolved(
    tmp_path: Path, parameters_: dict[str, Any], text: str, expected: str
) -> None:
    document = with_command(text, parameters=parameters_)
    assert command(build(document)) == expected + "\n"
    assert load(tmp_path, document) == ()


def test_a_parameter_that_is_one_reference_has_the_type_of_what_it_refers_to() -> None:
    use = {"name": "u", "type": "script", "plugin": "cmd", "given": "<% $parameters.a %>"}
    document = job(
        prerequisites=[use],
        parameters={
            "a": "<% $parameters.b %>",
            "b": {"c": "<% $secrets.s %>", "d": "<% $parameters.n %>"},
            "n": 7,
        },
        secrets={"s": "hunter2"},
        worker={"prerequisites": ["u"]},
    )
    assert parameters(build(document), "u")["given"] == {"c": placeholder("s"), "d": 7}


@pytest.mark.parametrize("value", ["<% $secrets.x %>", "<% $parameters.text %>", "<% $secrets.token %>"])
def test_a_secret_is_never_searched_for_references(tmp_path: Path, value: str) -> None:
    document = with_command("<% $parameters.a %>", parameters={"a": "<% $secrets.x %>"}, secrets={"x": value})
    assert command(build(document)) == placeholder("x") + "\n"
    assert load(tmp_path, document) == ()


@pytest.mark.parametrize(
    ("parameters_", "cycles"),
    [
        ({"a": "<% $parameters.a %>"}, ["parameters.a → parameters.a"]),
        (
            {"a": "x<% $parameters.b %>", "b": ["<% $parameters.c %>"], "c": "<% $parameters.b[0] %>"},
            ["parameters.b[0] → parameters.c → parameters.b[0]"],
        ),
        (
            {"a": "<% $parameters.b %>", "b": "<% $parameters.a %>", "c": "<% $parameters.c %>."},
            ["parameters.b → parameters.a → parameters.b", "parameters.c → parameters.c"],
        ),
        ({"a": {"b": "<% $parameters.a %>"}}, ["parameters.a → parameters.a"]),
        ({"a": "<% $parameters %>"}, ["parameters → parameters"]),
    ],
)
def test_a_circle_of_parameters_is_named_once_whether_they_are_used_or_not(
    tmp_path: Path, parameters_: dict[str, Any], cycles: list[str]
) -> None:
    for text in ("true", "<% $parameters.a %> <% $parameters.a %>"):
        problems = load(tmp_path, with_command(text, parameters=parameters_))
        circles = [problem for problem in problems if "it refers to itself: " in problem.message]
        assert [problem.message.partition("itself: ")[2] for problem in circles] == cycles
        assert all(problem.field.startswith("parameters.") for problem in circles)


@pytest.mark.parametrize("text", ["<% $parameters.gone %>", "<% $secrets.gone %>", "<% this.name %>"])
def test_a_parameter_that_refers_to_nothing_is_refused_where_it_is_written(tmp_path: Path, text: str) -> None:
    (problem,) = load(tmp_path, with_command("<% $parameters.a %>", parameters={"a": text}))
    assert (problem.code, problem.severity, problem.field) == (
        "reference-to-nothing",
        "error",
        "parameters.a",
    )


# What is left as it is, with a warning


@pytest.mark.parametrize("root", ["secrets", "parameters"])
def test_a_reference_without_its_dollar_is_plain_text_and_gives_a_warning(tmp_path: Path, root: str) -> None:
    text = f"echo <% {root}.text %> <%{root}.list[0]%>"
    (first, second) = load(tmp_path, with_command(text))
    for problem in (first, second):
        assert (problem.code, problem.severity) == ("reference-to-nothing", "warning")
        assert problem.suggestion == f"${root}"
    resolve, problems = resolver(build(with_command(text)), "worker")
    assert resolve.command().script == f"{text}\n"
    assert not problems.has_errors


@pytest.mark.parametrize(
    "text", ["<% secrets %>", "<% parameters() %>", "<% secrets.x() %>", "<% secretsx.y %>"]
)
def test_what_only_resembles_a_reference_gives_no_warning(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, with_command(text)) == ()


@pytest.mark.parametrize(
    ("commands", "severities"),
    [
        (["# <% $parameters.gone %>", "true"], ["warning"]),
        (["true\n  ## once: <% $parameters.gone %> <% $output.uri %>"], ["warning", "warning"]),
        (["true # <% $parameters.gone %>"], ["error"]),
        (["# one\necho <% $parameters.gone %>"], ["error"]),
        (["# <% $parameters.text %>"], []),
    ],
)
def test_a_reference_to_nothing_in_a_comment_is_a_warning(
    tmp_path: Path, commands: list[str], severities: list[str]
) -> None:
    in_role = with_command("true")
    in_role["taskRoles"]["worker"]["commands"] = commands
    in_deployment = with_command("true", defaults={"deployment": "d"})
    in_deployment["deployments"] = [{"name": "d", "taskRoles": {"worker": {"preCommands": commands}}}]
    in_callback = with_command("true")
    in_callback["prerequisites"][2]["callbacks"] = [callback("taskStarts", *commands)]
    in_callback["taskRoles"]["worker"]["output"] = None
    for document in (in_role, in_deployment, in_callback):
        problems = load(tmp_path, document)
        assert [problem.severity for problem in problems] == severities
        assert all(problem.code == "reference-to-nothing" for problem in problems)


# Secrets


def test_a_job_whose_secrets_are_hidden_needs_those_that_it_refers_to(tmp_path: Path) -> None:
    used, unused = (with_command(text, secrets="******") for text in ("<% $secrets.token %>", "true"))
    assert load(tmp_path, unused) == ()
    (problem,) = load(tmp_path, used)
    assert (problem.code, problem.field) == ("reference-to-nothing", "taskRoles.worker.commands[0]")
    assert "--secrets" in problem.message
    assert command(build(used, {"token": "x"})) == placeholder("token") + "\n"
    assert load(tmp_path, with_command("true", secrets="*****"))[0].code == "wrong-value"


@pytest.mark.parametrize(("given", "codes"), [("******", ["reference-to-nothing"]), ("*****", [])])
def test_a_secret_that_is_still_hidden_is_not_used(tmp_path: Path, given: str, codes: list[str]) -> None:
    document = with_command("<% $secrets.db[1] %>", secrets={"db": ["x", given], "unused": "******"})
    assert [each.code for each in load(tmp_path, document)] == codes
    assert command(build(document, {"db": ["x", "y"]})) == placeholder("db.1") + "\n"


def test_secrets_become_placeholders() -> None:
    text = "<% $secrets.token %> <% $secrets.list[1] %> <% $secrets.map.a.b %>"
    assert rendered(text) == " ".join(map(placeholder, ["token", "list.1", "map.a.b"]))
    document = with_command("true")
    document["prerequisites"].append(
        {"name": "u", "type": "script", "plugin": "cmd", "all": "<% $secrets.map %>"}
    )
    document["taskRoles"]["worker"]["prerequisites"] = ["u"]
    assert parameters(build(document), "u") == {"all": {"a": {"b": placeholder("map.a.b")}}}


def test_a_secrets_file_completes_and_overrides_the_secrets_of_the_job() -> None:
    job_ = build(with_command("<% $secrets.more %><% $secrets.list %>"), {"more": 7, "list": ["one"]})
    assert command(job_) == placeholder("more") + placeholder("list.0") + "\n"
    assert {name: node.data for name, node in job_.secrets.items()} == {
        "token": "hunter2",
        "list": ["one"],
        "map": {"a": {"b": "s-three"}},
        "more": 7,
    }


def test_a_job_without_secrets_takes_those_of_the_file() -> None:
    assert (
        command(build(with_command("<% $secrets.x %>", secrets=None), {"x": "y"})) == placeholder("x") + "\n"
    )


def test_names_with_dots_and_nested_names_are_different_secrets() -> None:
    job_ = build(with_command("true", secrets={"a.b": "one", "a": {"b": "two"}}))
    placeholders = as_placeholders(job_.secrets)
    shown = [placeholders["a.b"].data, placeholders["a"].data["b"]]
    assert len(set(shown)) == 2


def test_a_secret_is_not_shown_by_repr() -> None:
    assert "hunter2" not in repr(build(with_command("true"), {"x": "hunter2"}))


# Any text

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(_TEXT.filter(lambda text: "<%" not in text))
def test_any_text_without_the_opening_mark_is_unchanged(text: str) -> None:
    use = {"name": "u", "type": "script", "plugin": "cmd", "text": [text]}
    document = job(prerequisites=[use], worker={"prerequisites": ["u"]})
    assert parameters(build(document), "u") == {"text": [text]}


@given(
    _TEXT.filter(lambda text: "<%" not in text) | st.sampled_from(OTHER),
    _TEXT.filter(lambda text: "<%" not in text),
)
def test_any_text_is_inserted_as_it_is(value: str, around: str) -> None:
    text = f"{around}<% $parameters.x %>{around}"
    use = {"name": "u", "type": "script", "plugin": "cmd", "text": [f"a{text}"]}
    document = job(prerequisites=[use], parameters={"x": value}, worker={"prerequisites": ["u"]})
    assert parameters(build(document), "u") == {"text": [f"a{around}{value}{around}"]}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(_JSON)
def test_any_value_survives_a_reference_that_is_the_whole_text(value: Any) -> None:
    use = {"name": "u", "type": "script", "plugin": "cmd", "given": "<% $parameters.x %>"}
    document = job(prerequisites=[use], parameters={"x": value}, worker={"prerequisites": ["u"]})
    found = parameters(build(document), "u")["given"]
    assert repr(found) == repr(value)


_PIECES = st.sampled_from(
    [
        "<%",
        "%>",
        " ",
        "$",
        "this",
        "$parameters",
        "$secrets",
        "$data",
        ".",
        "[",
        "]",
        "0",
        "x",
        "uri",
        "-",
        "é",
        "\n",
    ]
)


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_any_text_is_rendered_or_its_references_to_nothing_are_reported(text: str) -> None:
    problems = command_problems(build(with_command(text)))
    assert all(problem.code == "reference-to-nothing" and problem.position for problem in problems)
