"""Templates in definitions: what they become, what they cannot do, and that no value becomes syntax."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, example, settings
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

from pai_definitions.expressions import parsed
from pai_definitions.template import LONGEST, Template, WrongTemplate, joined
from pai_document.document import parse_document
from pai_document.problems import Position
from pai_document.value import Node, Value, walk
from pai_runtime.definitions import Given
from pai_task.placeholders import placeholder
from tests.job_harness import yaml_text
from tests.template_harness import ASKED, faults, given, problems, render, written

NAMES = ("a", "b", "n", "xs", "m", "t")
VALUES = """\
a: alpha
b: "{{ a }}"
n: 0.10
xs: [1, two, [3]]
m: {k: v, l: [x]}
t: true
"""


def parameter(template: str, values: Mapping[str, Given] | None = None) -> Value:
    """What a template, as it is written in YAML, becomes."""
    source = f"name: d\nparameters:\n  p: {template}\ntemplate_variables: [{', '.join(NAMES)}]\n"
    value = render(source, {**written(VALUES), **(values or {})}).get("parameters", "p")
    assert value
    return value


def becomes(template: str, values: Mapping[str, Given] | None = None) -> Any:
    return parameter(template, values).data


def why_not(template: str, values: Mapping[str, Given] | None = None) -> str:
    (problem,) = problems(lambda: parameter(template, values))
    assert (problem.code, problem.field) == ("wrong-template", "parameters.p")
    assert problem.position
    assert problem.position.line == 3
    return problem.message


# What becomes of a text


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ a }}", "alpha"),
        ("{{n}}", 0.1),
        ("{{ t }}", True),
        ("{{ xs }}", [1, "two", [3]]),
        ("{{ m }}", {"k": "v", "l": ["x"]}),
        ("&x {{ xs }}", [1, "two", [3]]),
        ("[{{ a }}, {{ xs }}]", ["alpha", [1, "two", [3]]]),
        ("{{ n + 1 }}", 1.1),
        ("{{ 2 * 3 }}", 6),
        ("{{ n > 1 }}", False),
        ("{{ xs[1] }}", "two"),
        ("{{ xs[2] }}", [3]),
        ("{{ m.l }}", ["x"]),
        ("{{ [a, n] }}", ["alpha", 0.1]),
        ("{{ n if t else a }}", 0.1),
        ("{{ a | length }}", 5),
    ],
)
def test_a_text_that_is_one_bare_expression_becomes_the_value_of_its_own_type(
    template: str, value: Any
) -> None:
    found = parameter(template)

    assert found.data == value
    assert type(found.data) is type(value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("'{{ a }}'", "alpha"),
        ('"{{ n }}"', "0.10"),
        ("'{{ t }}'", "true"),
        ("!!str {{ n }}", "0.10"),
        ("|-\n    {{ n }}", "0.10"),
        ("x{{ a }}y{{ n }}", "xalphay0.10"),
        ("{{ a }}{{ a }}", "alphaalpha"),
        ("cd {{ a }} ", "cd alpha"),
        ("'{{ b }}'", "{{ a }}"),
        ("'{{ n ~ \"-gpu\" }}'", "0.10-gpu"),
        ("'{{ n + 1 }}'", "1.1"),
        ("'{{ t and not t }}'", "false"),
        ("'{{ a | upper }} {{ n | string | length }}'", "ALPHA 4"),
        ("'{{ a | replace(\"a\", n) }}'", "0.10lph0.10"),
        ("'{{ xs[:0] }}'", None),
        ('\'{{ m.l | join }}{{ m["k"] }}{{ [1, t] | join("-") }}\'', "xv1-true"),
        ("'{{ m.z | default(\"none\") }}{{ m.z | d }}'", "none"),
        ("'{{ a | first }}{{ xs | first }}{{ a | last }}'", "a1a"),
        ('\'{{ " x " | trim }}{{ "X" | lower }}\'', "xx"),
        (
            '\'{{ "7" | int + 1 }} {{ "0.5" | float * 2 }} {{ 2.6 | round | int }} {{ -3 | abs }}\'',
            "8 1.0 3 3",
        ),
        ("'{% if t %}yes{% else %}no{% endif %}'", "yes"),
        ("'{% if n > 1 %}yes{% elif a == \"alpha\" %}two{% endif %}'", "two"),
        ("'{% raw %}{{ a }}{% endraw %}{{ a }}'", "{{ a }}alpha"),
        ("'{{ \"{{\" }} a }}'", "{{ a }}"),
        ("'x\n\n\n    {{- a -}}  y'", "xalphay"),
        ('"{{ a | upper }}\\n"', "ALPHA\n"),
        ("'${#x} {# {{ a | upper }} #}'", "${#x} {# ALPHA #}"),
        ("'$((1 << 2)) %} }} }'", "$((1 << 2)) %} }} }"),
    ],
)
def test_within_a_text_a_value_is_inserted_as_it_was_written(template: str, text: str | None) -> None:
    if text is None:
        why_not(template)
        return
    found = parameter(template)

    assert (found.data, found.text) == (text, text)


def test_a_text_without_expressions_is_kept() -> None:
    source = "name: d\nparameters: {a: 0.10, b: yes, c: '}}', d: [~, {e: '%}'}]}\nuri: [x]\n"

    value = render(source, {})

    assert value.data["parameters"] == {"a": 0.1, "b": "yes", "c": "}}", "d": [None, {"e": "%}"}]}
    assert value.get("parameters", "a")
    assert [node.text for _, node in walk(value.node)] == ["d", "0.10", "yes", "}}", "", "%}", "x"]


def test_a_definition_becomes_a_prerequisite() -> None:
    source = """\
name: d
type: data
title: T
summary: "{{ S"
usage: U
tags: [t]
version: 1.0
plugin: cmd
plugin_params: {p: {{ v }}}
callbacks: [{event: taskStarts, commands: ["{{ v }}"]}]
require: [e, {name: f, template_variables: {x: {{ v }}, y: "a{{ v }}"}}]
requireStorages: {{ s }}
failurePolicy: {{ f }}
template_variables: [v, s, f]
"""
    values = given(v=7, s=[{"name": "confignfs"}], f="ignore")

    assert render(source, values).data == {
        "name": "d",
        "type": "data",
        "version": 1.0,
        "plugin": "cmd",
        "parameters": {"p": 7},
        "callbacks": [{"event": "taskStarts", "commands": ["7"]}],
        "require": ["e", {"name": "f", "template_variables": {"x": 7, "y": "a7"}}],
        "requireStorages": [{"name": "confignfs"}],
        "failurePolicy": "ignore",
    }


def test_what_a_field_becomes_is_checked_as_if_it_were_written() -> None:
    source = "name: d\nfailurePolicy: {{ f }}\nparameters: {{ p }}\ntemplate_variables: [f, p]\n"

    assert faults(lambda: render(source, given(f="{{ never }}", p=[1]))) == [
        "d.yaml:2:16 wrong-value",
        "d.yaml:3:13 wrong-type",
    ]


def test_all_that_is_rendered_stands_where_the_definition_does_for_who_requires_it() -> None:
    source = "- name: d\n  plugin_params:\n    p: {{ a }}\n    q: [x]\n  template_variables: [a]\n"
    value = render(source, given(a=[1, {"b": 2}]))

    for path in (("parameters", "p"), ("parameters", "p", 1, "b")):
        found = value.get(*path)
        assert found
        assert str(found.position) == "d.yaml:3:8"
        assert found.position.required_by == ASKED
    last = value.get("parameters", "q", 0)
    assert last
    assert (str(last.position), last.field) == ("d.yaml:4:9", "[0].parameters.q[0]")
    assert str(value.at(("parameters",)).key_position) == "d.yaml:2:3"


# References in values


def inserted(template: str, value: str) -> Node:
    return parameter(template, given(a=value)).node


def test_a_reference_in_a_value_is_none_in_what_it_is_inserted_into() -> None:
    node = inserted("'<% this.x %> {{ a }} <% this.y %>'", "<% $secrets.k %>")

    assert node.data == "<% this.x %> <% $secrets.k %> <% this.y %>"
    assert node.is_template
    assert [node.data[begin:end] for begin, end in node.inserted] == ["<% $secrets.k %>"]


def test_a_reference_that_values_complete_is_known_to_be_inserted() -> None:
    for template in ("'<{{ a }} $secrets.k %>'", "'<{{ a ~ \"\" }} $secrets.k %>'"):
        assert inserted(template, "%").inserted == [(1, 2)]


def test_what_a_filter_makes_is_inserted_too() -> None:
    node = inserted("'{% if a %}[{% endif %}{{ a | lower }}]'", "<% $SECRETS.K %>")

    assert node.data == "[<% $secrets.k %>]"
    assert [node.data[begin:end] for begin, end in node.inserted] == ["<% $secrets.k %>"]


def test_a_value_as_a_whole_has_no_references() -> None:
    found = parameter("{{ xs }}", given(xs=["<% this.x %>", {"a": "<% this.x %>"}]))

    assert not any(node.is_template for _, node in walk(found.node))
    assert not parameter("{{ a }}").node.is_template
    assert parameter("<% this.x %>").node.is_template


# Secrets


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("'--token={{ a }}'", "--token=\0k\0"),
        ("'{% if a %}--token {{ a }}{% endif %}'", "--token \0k\0"),
        ("'{{ a if a else n }}'", "\0k\0"),
        ("'{{ a ~ n }}{{ [a, a] | join(\",\") }}'", "\0k\x000.10\0k\0,\0k\0"),
    ],
)
def test_a_secret_is_inserted(template: str, text: str) -> None:
    assert becomes(template, given(a=placeholder("k"))) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ a | upper }}",
        "{{ a | length }}",
        "{{ a == 'x' }}",
        "{{ 'x' in a }}",
        "{{ (a ~ 'x') | last }}",
        "{{ a + a }}",
    ],
)
def test_nothing_that_depends_on_the_value_of_a_secret_is_decided_without_it(template: str) -> None:
    assert "secret" in why_not(template, given(a=placeholder("k")))


# What is refused


@pytest.mark.parametrize(
    "template",
    [
        "'x{{ xs }}'",
        "'{{ m }}'",
        "'{{ xs[2] }}'",
        "'{{ xs ~ a }}'",
        "{{ m.z }}",
        "{{ m.items }}",
        "{{ xs[7] }}",
        "{{ a.upper }}",
        "{{ a.__class__ }}",
        "{{ a['__class__'] }}",
        "{{ m.z.z }}",
        "{{ a + n }}",
        "{{ xs + xs }}",
        "{{ a * 3 }}",
        "{{ '%s' % a }}",
        "{{ n / 0 }}",
        "{{ 1 // 0 }}",
        "{{ 1 % 0 }}",
        "{{ a < n }}",
        "{{ -a }}",
        "{{ a | int }}",
        "{{ xs | upper }}",
        "{{ n | first }}",
        "{{ '' | last }}",
        "{{ n | length }}",
        "{{ n | join }}",
        "{{ xs | join }}",
        "{{ a | replace('', 'x') }}",
        "{{ a | round }}",
        "{{ n | round(1000000) }}",
        "{{ n | round(0, 'ceil') }}",
        "{{ a | upper(1, 2) }}",
    ],
)
def test_an_expression_that_has_no_value_is_shown_with_its_definition(template: str) -> None:
    assert "'d'" in why_not(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ a.upper() }}",
        "{{ range(9) }}",
        "{{ lipsum() }}",
        "{{ 9 ** 9 }}",
        "{{ a is defined }}",
        "{{ a[1:] }}",
        "'{{ {a: 1} }}'",
        "{{ a | attr('x') }}",
        "{{ a | format }}",
        "{{ a | xmlattr }}",
        "{{ a | map('upper') }}",
        "'{% for x in xs %}{% endfor %}'",
        "'{% set x = 1 %}'",
        "'{% macro x() %}{% endmacro %}'",
        "'{% include \"x\" %}'",
        "'{% import \"x\" as x %}'",
        "'{% extends \"x\" %}'",
        "'{% block x %}{% endblock %}'",
        "'{% filter upper %}{% endfilter %}'",
        "'{% autoescape true %}{% endautoescape %}'",
        "'{% if a %}'",
        '"{{ a | upper }}\\r"',
    ],
)
def test_templates_can_do_little(template: str) -> None:
    assert "'d'" in why_not(template)


LONG = "x" * LONGEST


@pytest.mark.parametrize(
    "template",
    [
        "'{{ " + "(" * 2000 + "a" + ")" * 2000 + " }}'",
        "'{{ " + "(" * 300 + "a" + ")" * 300 + " }}'",
        "'{{ " + "not " * 2000 + "a }}'",
        "'{{ " + "n + " * 2000 + "n }}'",
        "'{{ " + "[" * 2000 + "]" * 2000 + " }}'",
        "'{{ " + "*".join(["9" * 200] * 100) + " }}'",
        "'{{ 1e308 * 10 }}'",
        "'{{ \"9\" * 99999999 }}'",
        "'{{ b | replace(\"x\", b) }}'",
        "'{{ [b, b] | join(b) }}'",
        "'{{ b ~ b ~ b }}'",
        "'{{ b + b }}'",
        "'{{ b }}{{ b }}'",
        "'{% if b %}{{ b }}{% endif %}{{ b }}'",
        "'" + "{% if a %}" * 300 + "{% endif %}" * 300 + "'",
        "'" + "{{ a }}" * 1001 + "'",
        "'" + LONG + "{{ a }}'",
    ],
)
def test_no_template_takes_much_time_or_memory(template: str) -> None:
    assert "'d'" in why_not(template, given(b=LONG))


def test_no_definition_grows_beyond_what_a_file_may_have() -> None:
    items = ", ".join(["{{ a }}"] * 1000)

    assert faults(lambda: parameter(f"[{items}]", given(a=LONG))) == ["d.yaml:3:1375 too-many-values"]
    assert faults(lambda: parameter(f"[{items}]", given(a=[1] * 1000)))[0].endswith("too-many-values")


def test_no_definition_grows_deeper_than_a_file_may() -> None:
    deep: Any = 1
    for _ in range(95):
        deep = [deep]

    assert becomes("{{ a }}", given(a=deep)) == deep
    assert faults(lambda: parameter("[[[[[[{{ a }}]]]]]]", given(a=deep))) == ["d.yaml:3:12 too-deep"]


def test_no_fault_shows_a_value() -> None:
    for template in (
        "{{ a | int }}",
        "{{ a < n }}",
        "{{ m[a] }}",
        "{{ n / a }}",
        "{{ a | round }}",
        "{{ -a }}",
    ):
        assert "s3cret" not in why_not(template, given(a="s3cret")) or template == "{{ m[a] }}"


# What holds whatever the values are

TEXTS = st.one_of(
    st.text(max_size=20),
    st.text("{}%<>$'\"\\:#-[]&*!|\n\r\t \0abn", max_size=20),
    st.sampled_from(
        ["{{ a }}", "{% if a %}", "<% $secrets.k %>", "\n- a: b", "'", '"', "\0", "", "{#", "#}"]
    ),
)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
DATA = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.booleans(), st.none()),
    lambda children: st.one_of(
        st.lists(children, max_size=3), st.dictionaries(st.text("ab{}", max_size=5), children, max_size=3)
    ),
    max_leaves=5,
)
SHAPE = """\
name: d
plugin: cmd
parameters:
  whole: {{ v }}
  quoted: "{{ v }}"
  within: x {{ v }} y
  made: a{{ v | default("z") }}b
  block: |
    {{ v }}: {{ v }}
    - {{ v }}
callbacks:
  - event: taskStarts
    commands: ["echo {{ v }}", 'x']
template_variables: [v]
"""


def shape(value: Any) -> Any:
    """What is a list or a mapping, and with which keys."""
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items()}
    return [shape(child) for child in value] if isinstance(value, list) else "a scalar"


EXPECTED = shape(render(SHAPE, given(v="x")).data)


@given_by_hypothesis(TEXTS)
@settings(max_examples=60)
@example("{{ v }}\n- a: b")
@example("<% $secrets.k %>")
def test_no_value_changes_the_structure_of_a_definition(text: str) -> None:
    value = render(SHAPE, given(v=text))

    assert shape(value.data) == EXPECTED
    assert value.data["parameters"]["whole"] == text
    assert value.data["parameters"]["within"] == f"x {text} y"
    assert value.data["callbacks"][0]["commands"] == [f"echo {text}", "x"]


def test_a_long_value_stands_alone_only() -> None:
    text = "x" * 1_000_000

    assert becomes("{{ a }}", given(a=text)) == text
    assert "longer" in why_not("'{{ a }}'", given(a=text))
    assert "longer" in why_not("{{ a | d }}", given(a=text))


@given_by_hypothesis(DATA)
@settings(max_examples=50)
def test_a_value_as_a_whole_is_the_same_data_in_its_place(data: Any) -> None:
    source = "name: d\nparameters: {a: [1, {{ v }}], b: x}\ntemplate_variables: [v]\n"
    value = render(source, given(v=data))

    assert value.data["parameters"] == {"a": [1, data], "b": "x"}
    assert [node.data for _, node in walk(value.node)] == leaves(value.data)
    assume("\0" not in "".join(map(str, leaves(data))))  # no file can have it
    assert parse_document(yaml_text(value.data), "f").data == value.data


def leaves(data: Any) -> list[Any]:
    if isinstance(data, (dict, list)):
        children = data.values() if isinstance(data, dict) else data
        return [leaf for child in children for leaf in leaves(child)]
    return [data]


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["{{ a }}", "{{b}}", "{{\n a\t}}", "}", "{#", "#}", "%}", "{ {", "}}", "$", "\n", " "]
        ),
        st.text("ab}%# \n-", max_size=5),
    ),
    max_size=8,
).map("".join)


@given_by_hypothesis(PIECES, TEXTS, TEXTS)
@settings(max_examples=60)
@example("{{{ a }}", "x", "y")
@example("{{ a }}}", "x", "y")
@example("{{ a }}\n", "x\r\n", "y")
def test_what_is_rendered_without_jinja_is_what_jinja_makes_of_it(template: str, a: str, b: str) -> None:
    values = given(a=a, b=b)
    simple = Template(template)
    assume(not simple.work)

    assert joined(simple.pieces(values)) == joined(parsed(template).pieces(values))
    assert set(simple.names) == set(parsed(template).names)


@given_by_hypothesis(st.text("{}%'\"()[]|~+-*/<>=., abn_01\n\\$if#", max_size=60))
@settings(max_examples=200)
@example("{{ a|d(a,a,a,a) }}")
@example("{{ a if }}")
def test_a_template_is_rendered_or_refused(template: str) -> None:
    with suppress(WrongTemplate):
        found = Template(template)
        if set(found.names) <= {"a", "b", "n"}:
            joined(found.pieces(given(a="x", b=[1], n=2)))


@pytest.mark.parametrize(
    "name", ["class", "loop", "context", "environment", "resolve", "undefined", "l_0_a", "dict", "for", "if_"]
)
def test_variables_may_have_any_name(name: str) -> None:
    values = {name: Given("v", "v", Position("j"))}

    for template, text in ((f"{{{{ {name} }}}}", "v"), (f"{{{{ {name} | upper }}}}", "V")):
        assert [piece.text for piece in Template(template).pieces(values)] == [text]
