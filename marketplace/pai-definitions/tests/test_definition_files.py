"""Definition files: what can stand in them, and where each fault in them is shown."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_definitions.definition import unused_variables
from pai_definitions.unquoted import parse_unquoted
from pai_document.document import parse_document
from pai_document.problems import InvalidInput
from pai_document.schemas import package_schema
from pai_document.value import Source, walk
from tests.template_harness import ASKED, definition, definitions, faults, problems

WGET = """\
# in marketplace
- name: install_wget
  plugin: cmd
  plugin_params:
    callbacks:
      - event: taskStarts
        commands:
          - "apt update"
          - "apt install -y wget"
"""


def data(content: str) -> Any:
    return definition(content).value.data


def test_misspelt_variables_are_named_and_not_each_place_that_uses_them() -> None:
    (problem,) = problems(lambda: definitions("name: d\nuri: '{{ a }}{{ b }}'\ntemplate_varables: [a, b]\n"))
    assert (problem.code, problem.field, problem.suggestion) == (
        "unknown-field",
        "template_varables",
        "template_variables",
    )


# What a file holds


def test_a_file_holds_one_definition_or_a_list_of_them() -> None:
    assert list(definitions("name: one\ntype: data")) == ["one"]
    assert list(definitions("- name: one\n- name: two\n")) == ["one", "two"]
    assert list(definitions(WGET)) == ["install_wget"]


def test_what_a_definition_says_of_itself_is_kept_as_it_is_written() -> None:
    found = definition(
        "{name: d, type: data, version: 1.10, title: T, summary: S, usage: U, tags: [a], contributor: c}"
    )

    assert (found.name, found.kind, found.version) == ("d", "data", "1.10")
    assert (found.title, found.summary, found.usage) == ("T", "S", "U")


def test_variables_are_names_or_say_more() -> None:
    variables = definition(
        "name: d\nplugin_params: {a: '{{ a }}{{ b }}'}\n"
        "template_variables: [a, {name: b, type: list, description: B, default: [1]}]"
    ).variables

    assert list(variables) == ["a", "b"]
    assert (variables["a"].type, variables["a"].description, variables["a"].default) == ("", "", None)
    assert (variables["b"].type, variables["b"].description) == ("list", "B")
    assert variables["b"].default
    assert variables["b"].default.data == [1]


def test_a_default_of_nothing_is_a_default() -> None:
    (variable,) = definition("{name: d, template_variables: [{name: a, default: }]}").variables.values()

    assert variable.default
    assert variable.default.data is None


def test_required_definitions_are_named_by_texts_or_with_their_variables() -> None:
    source = "{name: d, require: [a, {name: marketplace://name/b, template_variables: {x: 1}}, {name: c}]}"

    assert data(source)["require"][1]["template_variables"] == {"x": 1}


def test_positions_know_by_what_a_definition_is_required() -> None:
    assert definition(WGET).value.position.required_by == ASKED
    for broken in (
        "name: d\nplugin: 3",
        "a: [",
        "",
        "- &a [*a]",
        "- *b",
        b"\xff",
        "name: \x07",
        b" " * 5_000_000,
    ):
        with pytest.raises(InvalidInput) as raised:
            definitions(broken)
        for problem in raised.value.problems:
            assert problem.position
            assert problem.position.way == ("job.yaml:7:3",), problem


# Faults


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("[]", ["d.yaml:1:1 empty"]),
        ("", ["d.yaml empty"]),
        ("just text", ["d.yaml:1:1 wrong-type"]),
        ("- name: a\n- text\n- 3", ["d.yaml:2:3 wrong-type", "d.yaml:3:3 wrong-type"]),
        ("type: data", ["d.yaml:1:1 missing-field"]),
        ("name: a b", ["d.yaml:1:7 wrong-value"]),
        ("name: a\ntype: job", ["d.yaml:2:7 wrong-value"]),
        ("name: a\nplugin_params: [1]", ["d.yaml:2:16 wrong-type"]),
        ("name: a\ncallbacks: {}", ["d.yaml:2:12 wrong-type"]),
        ("name: a\nfailurePolicy: sometimes", ["d.yaml:2:16 wrong-value"]),
        ("name: a\nrequireStorages: [{mountPath: /a}]", ["d.yaml:2:19 missing-field"]),
        ("name: a\nrequire: [3]", ["d.yaml:2:11 wrong-type"]),
        ("name: a\nrequire:\n- {nam: b}", ["d.yaml:3:4 unknown-field"]),
        ("name: a\nrequire:\n- {name: b, variables: {}}", ["d.yaml:3:13 unknown-field"]),
        ("name: a\ntemplate_variables: [a-b]", ["d.yaml:2:22 wrong-value"]),
        ("name: a\ntemplate_variables: [{name: a, type: text}]", ["d.yaml:2:38 wrong-value"]),
        ("name: a\ntemplate_variables: [{type: list}]", ["d.yaml:2:22 missing-field"]),
        ("name: a\ntemplate_variables: [v, {name: v}]", ["d.yaml:2:32 duplicate-name"]),
        ("name: a\ntemplate_variables: [v, not]", ["d.yaml:2:25 wrong-name"]),
        (
            "name: a\ntemplate_variables: [{name: v, type: number, default: a}]",
            ["d.yaml:2:55 wrong-variable"],
        ),
        ("name: a\ntemplate_variables: [v, {name: w, default: '{{ v }}'}]", ["d.yaml:2:44 wrong-template"]),
        ("name: a\nplugin_params: {}\nparameters: {}", ["d.yaml:3:1 duplicate-field"]),
        ("- name: a\n- name: b\n- name: a", ["d.yaml:3:9 duplicate-name"]),
        ("- name: a\n  type: data\n- name: a\n  type: script", []),
        ("- name: a\n  version: 1\n- name: a\n  version: 2", []),
    ],
)
def test_each_fault_is_shown_at_its_place(source: str, found: list[str]) -> None:
    assert (faults(lambda: definitions(source)) if found else list(definitions(source)) and []) == found


def test_all_faults_of_all_definitions_are_shown_at_once() -> None:
    source = "- name: a\n  plugin: ''\n  uri: 3\n- name: b\n  plugin_params: {a: '{{ x }}', '{{ y }}': 1}\n"

    assert faults(lambda: definitions(source)) == [
        "d.yaml:2:11 wrong-value",
        "d.yaml:3:8 wrong-type",
        "d.yaml:5:26 wrong-template",
        "d.yaml:5:33 wrong-template",
    ]


def test_a_file_of_faults_is_read_up_to_a_bound() -> None:
    found = problems(lambda: definitions("- nam: a\n" * 1010))

    assert found[0].code == "too-many-problems"
    assert len(found) == 1001


# Templates in it


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("name: a\nuri: '{{ b }}'", ["d.yaml:2:10 wrong-template"]),
        ("name: a\nuri: ['x{{ b }}{{ c }}']", ["d.yaml:2:12 wrong-template", "d.yaml:2:19 wrong-template"]),
        ("name: a\nplugin_params: {{ b }}", ["d.yaml:2:19 wrong-template"]),
        ("name: a\nuri: '{{ b | uper }}'", ["d.yaml:2:6 wrong-template"]),
        ("name: a\nuri: '{{ b'", ["d.yaml:2:6 wrong-template"]),
        ("name: a\nuri: ' {{.Names}}'", ["d.yaml:2:6 wrong-template"]),
        ("name: a\nuri: '{% if %}'", ["d.yaml:2:6 wrong-template"]),
        ("name: a\ncallbacks: [{'{{ b }}': 1}]", ["d.yaml:2:14 wrong-template"]),
        ("name: a\ntype: '{{ b }}'", ["d.yaml:2:7 wrong-template"]),
        ("name: a\nplugin: '{{ b }}'", ["d.yaml:2:9 wrong-template"]),
        ("name: a\nversion: '{{ b }}'", ["d.yaml:2:10 wrong-template"]),
        ("name: a\nrequire: ['{{ b }}']", ["d.yaml:2:11 wrong-template"]),
        ("name: a\nrequire: [{name: '{{ b }}'}]", ["d.yaml:2:18 wrong-template"]),
        ("name: a\nrequire: [{name: b, template_variables: {c: '{{ d }}'}}]", ["d.yaml:2:49 wrong-template"]),
    ],
)
def test_a_template_that_cannot_be_rendered_is_a_fault_of_the_file(source: str, found: list[str]) -> None:
    assert faults(lambda: definitions(source)) == found


def test_what_is_said_of_a_definition_is_no_template() -> None:
    source = "{name: a, usage: 'give {{ path }}', title: '{% x', description: '{{', tags: ['{{']}"

    assert definition(source).usage == "give {{ path }}"


def test_an_undeclared_variable_that_is_nearly_a_declared_one_suggests_it() -> None:
    (problem,) = problems(
        lambda: definitions("{name: a, uri: '{{ dataPaht }}', template_variables: [dataPath]}")
    )

    assert problem.suggestion == "dataPath"
    assert problem.found == "'dataPaht'"


def test_variables_without_a_use_are_known() -> None:
    found = definition(
        "name: d\nplugin_params: {a: '{{ a }}', b: ['{% if b %}{{ c | lower }}{% endif %}']}\n"
        "usage: '{{ e }}'\ntemplate_variables: [a, b, c, d, e]"
    )

    assert [variable.name for variable in unused_variables(found)] == ["d", "e"]


def test_a_file_with_too_many_expressions_is_refused_in_bounded_time() -> None:
    texts = "".join(f"  p{index}: '{{{{ a ~ {index} }}}}'\n" for index in range(3000))

    assert [
        each.code
        for each in problems(lambda: definitions(f"name: a\ntemplate_variables: [a]\nparameters:\n{texts}"))
    ] == ["too-many-expressions"]


# Expressions without quotes


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("mountPath: {{ a }}", {"mountPath": "{{ a }}"}),
        ("- cd {{ a }}", ["cd {{ a }}"]),
        ("[{{ a }}, {{ b }}]", ["{{ a }}", "{{ b }}"]),
        ("{x: {{ a }}, y: {{ b }}}", {"x": "{{ a }}", "y": "{{ b }}"}),
        ("- {{ a }}/x and {{ b }}", ["{{ a }}/x and {{ b }}"]),
        ("- {{ a | default('x: #y') }} # comment", ["{{ a | default('x: #y') }}"]),
        ('- {{ a | default("}}") }}', ['{{ a | default("}}") }}']),
        ("- {{ a }}\n- '{{ b | d(''x'') }}'", ["{{ a }}", "{{ b | d('x') }}"]),
        ('- {{ a }}\n- "{{ b }}\\n\\u00e9"', ["{{ a }}", "{{ b }}\né"]),
        ("- {{ a }}\n- |\n  {{ b }}: [\n  x", ["{{ a }}", "{{ b }}: [\nx\n"]),
        ("- {{ a }}\n- >-\n  {{ b }}\n  x", ["{{ a }}", "{{ b }} x"]),
        ("- &x {{ a }}\n- *x", ["{{ a }}", "{{ a }}"]),
        ("- {{ ä ~ '日本' }}", ["{{ ä ~ '日本' }}"]),
    ],
)
def test_an_expression_needs_no_quotes(source: str, value: Any) -> None:
    lines = "".join(f"  {line}\n" for line in source.splitlines())
    written = f"name: d\nusage:\n{lines}"

    assert parse_unquoted(Source("d.yaml", written)).data["usage"] == value


def test_positions_are_those_of_the_file_as_it_is_written() -> None:
    source = "name: a\nuri: [{{ b }},   {{ c }}]\nfailurePolicy: never\n"

    assert faults(lambda: definitions(source)) == [
        "d.yaml:2:10 wrong-template",
        "d.yaml:2:21 wrong-template",
        "d.yaml:3:16 wrong-value",
    ]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("name: a\nuri: {{ b }}\nx: [1", "d.yaml:3:4 unclosed-bracket"),
        ("name: a\nuri: {{ b }}\nname: c", "d.yaml:3:1 duplicate-key"),
        ("name: a\nuri: {{ b", "d.yaml:2:7 wrong-key"),
        ("name: {{ b }\nuri: {{ b }}", "d.yaml:1:8 wrong-key"),
        ("name: a\nuri: {{ '\U000f0041' }}", "d.yaml:2:7 wrong-key"),
    ],
)
def test_the_fault_of_a_file_with_such_expressions_is_the_one_beside_them(source: str, fault: str) -> None:
    assert faults(lambda: definitions(source)) == [fault]


@given(st.text("{}'\": \\\n[],#&*-abc\U000f0041", max_size=40))
@settings(max_examples=200)
def test_a_file_that_is_yaml_means_the_same_with_and_without_expressions_beside_it(text: str) -> None:
    try:
        expected = parse_document(text, "f").data
    except InvalidInput:
        expected = None
    try:
        found = parse_unquoted(Source("f", text))
    except InvalidInput:
        assert expected is None
        return
    if expected is not None:
        assert found.data == expected
    for _, node in walk(found.node):
        assert isinstance(node.text, str)
        assert not any(0xF0000 <= ord(each) < 0xF0080 for each in node.text if each not in text)


# Its schema


def test_a_field_that_jobs_have_too_means_the_same_in_definitions() -> None:
    ours = package_schema("pai_definitions", "definition.schema.json")
    theirs = package_schema("pai_runtime.job", "job.schema.json")
    assert ours["$defs"]["name"] == theirs["$defs"]["name"]
    assert ours["$defs"]["version"] == theirs["$defs"]["version"]
    shared = {"callbacks", "failurePolicy", "uri", "plugin"}

    for field in shared:
        mine, job = (
            _resolved(schema, properties[field])
            for schema, properties in (
                (ours, ours["properties"]),
                (theirs, theirs["$defs"]["prerequisite"]["properties"]),
            )
        )
        assert mine == job, field


def _resolved(schema: Any, field: Any) -> Any:
    named = schema["$defs"][field["$ref"].rpartition("/")[2]] if "$ref" in field else {}
    return {key: value for key, value in {**named, **field}.items() if key not in ("$ref", "description")}
