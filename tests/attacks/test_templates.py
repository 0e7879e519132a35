"""Templates that try to take long, to break what renders them, or to tell what they are given."""

import pytest

from pai_definitions.template import LONGEST
from pai_task.placeholders import placeholder
from tests.template_harness import given, problems, render

SECRET = placeholder("key")


def message(template: str, **values: object) -> str:
    """Why a template cannot be rendered."""
    source = f'name: d\nparameters: {{p: "{template}"}}\ntemplate_variables: [{", ".join(values) or "x"}]\n'
    (problem,) = problems(lambda: render(source, given(**(values or {"x": 1}))))
    assert problem.code == "wrong-template"
    return problem.message


@pytest.mark.parametrize(
    "template",
    [
        f"{{{{ {'9' * 5000} }}}}",
        f"{{{{ 0x{'f' * 5000} + x }}}}",
        "{{ 1e999 }}",
        "{{ x if x < 1e999 else -1e999 }}",
    ],
)
def test_a_number_in_a_template_is_bounded(template: str) -> None:
    assert "too large" in message(template)


@pytest.mark.parametrize(
    "template",
    ["{{ m[t] }}", "{{ m[t ~ 'x'] }}", "{{ m[[t][0]] }}", "{{ m[t if t else 'k'] }}", "{{ m[m[t]] }}"],
)
def test_a_secret_is_no_key(template: str) -> None:
    assert "secret" in message(template, m={"k": 1}, t=SECRET)


@pytest.mark.parametrize(
    "template", ["{{ m[t] }}", "{{ xs[t] }}", "{{ m[t].k }}", "{{ m[xs] }}", "{{ t[m] }}"]
)
def test_a_message_shows_no_value_that_was_no_key(template: str) -> None:
    assert "hunter2" not in message(template, m={"k": 1}, t="hunter2", xs=["hunter2"])


@pytest.mark.parametrize(
    "value",
    [
        [0] * 2000,
        [[0] * 900, [0] * 900],
        {str(number): number for number in range(2000)},
        [["x" * 1000] * 100],
        {"x" * 40_000: "y" * 40_000},
        [[[[]] * 300] * 300] * 300,
    ],
    ids=["list", "lists", "mapping", "texts", "long texts", "empty lists"],
)
def test_an_expression_looks_only_at_what_is_small(value: object) -> None:
    assert str(LONGEST) in message("{{ x == y }}", x=value, y=value)
    assert str(LONGEST) in message("{{ x[0] }}", x=value)


def test_what_is_large_is_inserted_as_it_is() -> None:
    values = [0] * 2000
    rendered = render("name: d\nparameters: {p: {{ x }}}\ntemplate_variables: [x]\n", given(x=values))
    assert rendered.data["parameters"]["p"] == values
