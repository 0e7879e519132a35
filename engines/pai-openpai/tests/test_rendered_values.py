"""``validate --for openpai``: values of which its REST server makes another text.

Its own answers were 0.10, 1.0, 1e6, 010, a date, a long integer, .inf and true; the others follow from
JavaScript's rules for writing numbers, and from YAML 1.1.
"""

import pytest

from pai_document.document import parse_document
from pai_document.problems import Problem, Problems
from pai_openpai.job_check import check_for_openpai

JOB = """\
protocolVersion: 2
name: job
type: job
parameters:
  x: {written}
prerequisites: [{{name: image, type: dockerimage, uri: ubuntu}}]
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 100, gpu: 0}}
    commands: ["echo {command}"]
"""


def check(written: str, command: str = "<% $parameters.x %>") -> list[Problem]:
    problems = Problems()
    check_for_openpai(parse_document(JOB.format(written=written, command=command), "job.yaml"), problems)
    return list(problems.in_order)


@pytest.mark.parametrize(
    ("written", "rendered", "severity"),
    [
        ("0.10", "0.1", "warning"),
        ("1.0", "1", "warning"),
        ("1e6", "1000000", "warning"),
        ("1e-4", "0.0001", "warning"),
        ("1.50e-07", "1.5e-7", "warning"),
        ("1E+21", "1e+21", "warning"),
        ("+5", "5", "warning"),
        ("-0", "0", "warning"),
        ("0x1F", "31", "warning"),
        ("True", "true", "warning"),
        ("&anchor 0.10", "0.1", "warning"),
        ("010", "8", "error"),
        ("12345678901234567890", "12345678901234567000", "error"),
        (".inf", "Infinity", "error"),
        ("2020-01-01", "a date in words", "error"),
        ("2020-01-01 10:00:00", "a date in words", "error"),
    ],
)
def test_a_value_that_the_server_changes_is_reported_where_it_is_written(
    written: str, rendered: str, severity: str
) -> None:
    (problem,) = check(written)
    assert (problem.code, problem.field, problem.found) == ("changed-by-openpai", "parameters.x", rendered)
    assert problem.position
    assert (problem.severity, problem.position.line) == (severity, 5)


@pytest.mark.parametrize(
    "written",
    [
        "'0.10'",
        '"010"',
        "'2020-01-01'",
        "!!str 010",
        "yes",
        "true",
        "8",
        "-1",
        "0",
        "0.1",
        "09",
        "a b",
        "~",
        "",
    ],
)
def test_a_value_that_both_insert_alike_is_accepted(written: str) -> None:
    assert check(written) == []


def test_the_items_of_a_list_are_checked_each() -> None:
    assert [each.field for each in check("[1, 0.10, '0.10', 010]")] == ["parameters.x[1]", "parameters.x[3]"]


@pytest.mark.parametrize("command", ["true", "<% $parameters.xy %>"])
def test_a_value_that_is_in_no_command_is_accepted(command: str) -> None:
    assert check("010", command) == []


@pytest.mark.parametrize(
    "command",
    ["<%! a comment %>", "<%# section %> x <%/ section %>", "<%= a %>", "<% ! x %>", "printf '<%d'"],
)
def test_a_tag_of_mustache_that_is_no_reference_is_an_error(command: str) -> None:
    (problem,) = check("x", command)
    assert (problem.severity, problem.code) == ("error", "changed-by-openpai")
    assert problem.field == "taskRoles.worker.commands[0]"


@pytest.mark.parametrize("command", ["<% $secrets.x %>", "<%x%> <% $parameters.x %>", "50 % < 60 %>"])
def test_text_that_openpai_leaves_as_it_is_is_accepted(command: str) -> None:
    assert check("x", command) == []
