"""Template variables: which have to be given, what they have to be, and where each fault is shown."""

from typing import Any

import pytest

from pai_definitions.variables import completed
from pai_document.document import parse_document
from pai_document.problems import Position, Problem
from pai_document.value import Value
from pai_runtime.definitions import Given
from tests.template_harness import definition, given, problems, written

MNIST = """\
name: mnist
uri: "{{ dataPath }}{{ n }}{{ xs }}"
template_variables:
  - {name: dataPath, type: string, description: Where the images are put}
  - {name: n, type: number, default: 0.10}
  - xs
"""


def asked(source: str) -> Value:
    """The first prerequisite of the task role `a` of a job."""
    value = parse_document(source, "job.yaml").get("prerequisites", 0)
    assert value
    return value


def faults_of(source: str) -> tuple[Problem, ...]:
    reference = asked(source)
    variables = reference.get("template_variables")
    values = {
        str(each.key): Given(each.data, each.text, each.position)
        for each in (variables.values() if variables else ())
    }
    return problems(lambda: completed(definition(MNIST), values, reference))


def test_what_is_given_is_completed_by_defaults_in_the_order_of_the_declarations() -> None:
    values = completed(definition(MNIST), given(xs=[1], dataPath="/d"), asked("prerequisites: [mnist]"))

    assert [(name, each.data, each.text) for name, each in values.items()] == [
        ("dataPath", "/d", "/d"),
        ("n", 0.1, "0.10"),
        ("xs", [1], ""),
    ]
    assert str(values["n"].position) == "d.yaml:5:38"
    assert str(values["xs"].position) == "job.yaml:7:3"


def test_a_variable_that_is_not_given_is_missed_where_the_definition_is_asked_for() -> None:
    first, second = faults_of("prerequisites:\n  - mnist\n")

    assert (first.code, str(first.position), first.field) == (
        "missing-variable",
        "job.yaml:2:5",
        "prerequisites[0]",
    )
    assert "'mnist'" in first.message
    assert "'dataPath'" in first.message
    assert "Where the images are put" in first.message
    assert second.code == "missing-variable"
    assert "'xs'" in second.message


def test_a_variable_that_is_not_declared_is_shown_where_it_is_given_with_what_was_meant() -> None:
    source = (
        "prerequisites:\n  - name: mnist\n    template_variables: {dataPath: a, xs: b, m: 1, datapath: 2}\n"
    )
    unknown, misspelt = faults_of(source)

    assert (unknown.code, str(unknown.position)) == ("unknown-variable", "job.yaml:3:46")
    assert (unknown.found, unknown.suggestion) == ("'m'", None)
    assert unknown.field == "prerequisites[0].template_variables.m"
    assert "'mnist'" in unknown.message
    assert (misspelt.code, misspelt.suggestion) == ("unknown-variable", "dataPath")


def test_all_faults_of_a_reference_are_shown_at_once() -> None:
    source = "prerequisites: [{name: mnist, template_variables: {dataPath: [], m: 1}}]"

    assert [(each.code, str(each.position)) for each in faults_of(source)] == [
        ("wrong-variable", "job.yaml:1:62"),
        ("unknown-variable", "job.yaml:1:66"),
        ("missing-variable", "job.yaml:1:17"),
    ]


VALUES = {
    "text": "string",
    "'7'": "string",
    "7": "integer",
    "7.0": "number",
    "0.5": "number",
    "true": "boolean",
    "[]": "list",
    "{}": "mapping",
    "null": "nothing",
}
FITTING = {
    "": set(VALUES.values()),
    "string": {"string", "integer", "number", "boolean"},
    "number": {"integer", "number"},
    "integer": {"integer"},
    "boolean": {"boolean"},
    "list": {"list"},
    "mapping": {"mapping"},
}


@pytest.mark.parametrize("kind", FITTING)
@pytest.mark.parametrize("value", VALUES)
def test_a_value_has_the_type_that_its_variable_declares(kind: str, value: str) -> None:
    declared = f"type: {kind}, " if kind else ""
    found = definition(f"{{name: d, uri: '{{{{ v }}}}', template_variables: [{{name: v, {declared}}}]}}")
    reference = asked("prerequisites: [d]")

    if VALUES[value] in FITTING[kind]:
        assert completed(found, written(f"v: {value}"), reference)
    else:
        (problem,) = problems(lambda: completed(found, written(f"v: {value}"), reference))
        assert (problem.code, problem.field) == ("wrong-variable", "prerequisites[0].template_variables.v")
        assert "'d'" in problem.message
        assert "'v'" in problem.message


@pytest.mark.parametrize("value", ["2017", "1.10", "true", "0x1F"])
def test_a_string_without_quotes_is_what_is_written(value: str) -> None:
    found = definition("{name: d, uri: '{{ v }}', template_variables: [{name: v, type: string}]}")
    values = completed(found, written(f"v: {value}"), asked("prerequisites: [d]"))

    assert values["v"].data == value


def test_no_fault_shows_a_value() -> None:
    found = definition("{name: d, uri: '{{ v }}', template_variables: [{name: v, type: number}]}")
    values: dict[str, Any] = {"v": Given("s3cret", "s3cret", Position("job.yaml", 1, 1))}

    assert all(
        "s3cret" not in str(each)
        for each in problems(lambda: completed(found, values, asked("prerequisites: [d]")))
    )


def test_thousands_of_unknown_variables_are_told_up_to_a_bound() -> None:
    values = given(**{f"v{index}": 1 for index in range(5000)})
    found = problems(lambda: completed(definition(MNIST), values, asked("prerequisites: [mnist]")))

    assert found[0].code == "too-many-problems"
