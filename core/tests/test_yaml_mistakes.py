"""The commonest mistakes in YAML: each is named where it was made, with what to write instead."""

from pathlib import Path

import pytest
import yaml

from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Problem
from tests.job_harness import load, yaml_text
from tests.support import job


@pytest.fixture(
    params=[pytest.param("libyaml", marks=pytest.mark.needs("libyaml")), "pure Python"], autouse=True
)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """PyYAML with and without its C library, which word their faults differently."""
    if request.param == "pure Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    return str(request.param)


def first_problem(source: str) -> Problem:
    with pytest.raises(InvalidInput) as raised:
        parse_document(source, "f")
    return raised.value.problems[0]


def place(problem: Problem) -> tuple[int, int]:
    assert problem.position is not None
    return problem.position.line, problem.position.column


@pytest.mark.parametrize(
    ("source", "line", "column", "code"),
    [
        ("a:\n\tb: c\n", 2, 1, "tab"),
        ("a: b\n\tc: d\n", 2, 1, "tab"),
        ("a:\n  - b\n\t- c\n", 3, 1, "tab"),
        ("a:\n \tb: c\n", 2, 2, "tab"),
        ("a:\n  -\tb: c\n", 2, 4, "tab"),
        ("a:\n  b: 1\n c: 2\n", 3, 2, "wrong-indentation"),
        ("a:\n  b: 1\n   c: 2\n", 3, 4, "wrong-indentation"),
        ("a: 1\n b: 2\n", 2, 2, "wrong-indentation"),
        ("a:\n  - b\n - c\n", 3, 2, "wrong-indentation"),
        ("a:\n  - b: 1\n   c: 2\n", 3, 4, "wrong-indentation"),
        ("a:\n  - b: 1\n     c: 2\n", 3, 6, "wrong-indentation"),
        ("a:\n  - b\n  c: 2\n", 3, 3, "wrong-indentation"),
        ("a:\n  b: 1\n  - c\n", 3, 3, "wrong-indentation"),
        ("a: b: c\n", 1, 5, "needs-quotes"),
        ("a: 1\nb: c: d\n", 2, 5, "needs-quotes"),
        ("a: {b: c: d}\n", 1, 9, "needs-quotes"),
        ("a: @b\n", 1, 4, "needs-quotes"),
        ("a: `b`\n", 1, 4, "needs-quotes"),
        ("a: %b\n", 1, 4, "needs-quotes"),
        ("a: *.txt\n", 1, 4, "needs-quotes"),
        ("a: | b\n", 1, 4, "needs-quotes"),
        ('a: "b" c\n', 1, 8, "needs-quotes"),
        ("a: {{ b }}/c\n", 1, 5, "wrong-key"),
        ("a:\n  b:1\n  c: 2\n", 2, 5, "missing-space"),
        ("a: 1\nb:2\nc: 3\n", 2, 3, "missing-space"),
        ("a:\n  - b\n  -c\n", 3, 4, "missing-space"),
        ("a: 1\nb\nc: 3\n", 2, 1, "missing-colon"),
        ('a: "b\nc: d\n', 1, 4, "unclosed-quote"),
        ("a: 'b\nc: d\n", 1, 4, "unclosed-quote"),
        ('a: "b\nc: "d"\ne: f\n', 1, 4, "unclosed-quote"),
        ("a: {b: 1\nc: 2\n", 1, 4, "unclosed-bracket"),
        ("a: [b, 1\nc: 2\n", 1, 4, "unclosed-bracket"),
        ("a: [1, 2\n", 1, 4, "unclosed-bracket"),
        ("a: {b: 1, c: 2]\n", 1, 4, "unclosed-bracket"),
        ("é: [\n  é: }\n", 1, 4, "unclosed-bracket"),
        ("a: [b]]\n", 1, 7, "unopened-bracket"),
        ('a: "\\d"\n', 1, 5, "unknown-escape"),
        ("a: 1\na: 2\n", 2, 1, "duplicate-key"),
    ],
)
def test_a_mistake_is_named_where_it_was_made(source: str, line: int, column: int, code: str) -> None:
    problem = first_problem(source)
    assert (*place(problem), problem.code) == (line, column, code)


@pytest.mark.parametrize(
    ("source", "expected", "found"),
    [
        ("a:\n  b: 1\n c: 2\n", "column 3, as in line 2", "column 2"),
        ("a:\n  b: 1\n   c: 2\n", "column 3, as in line 2", "column 4"),
        ("a:\n  - b\n - c\n", "column 3, as in line 2", "column 2"),
        ("a:\n  - b: 1\n\n     # c\n     c: 2\n", "column 5, as in line 2", "column 6"),
        ("a: 1\n b: 2\n", "column 1, as in line 1", "column 2"),
        ("a:\n\tb: c\n", "spaces", "a tab"),
    ],
)
def test_wrong_indentation_tells_the_column_of_what_the_line_belongs_to(
    source: str, expected: str, found: str
) -> None:
    problem = first_problem(source)
    assert (problem.expected, problem.found) == (expected, found)


_BEFORE = yaml_text(job()).replace('"', "").partition("    commands:")[0] + "    commands:\n"


def problems_of_command(folder: Path, written: str) -> tuple[Problem, ...]:
    """What is wrong with a job whose first command is written so."""
    return load(folder, f"{_BEFORE}      {written}\n")


@pytest.mark.parametrize(
    ("written", "code", "column", "suggestion"),
    [
        ('- echo "loss: 0.5"', "wrong-type", 9, "- 'echo \"loss: 0.5\"'"),
        ("- echo it's: x", "wrong-type", 9, '- "echo it\'s: x"'),
        ("- echo 'a: \"b\"'", "needs-quotes", 9, "- 'echo ''a: \"b\"'''"),
        ("- make:  # all", "wrong-type", 9, "- 'make:  # all'"),
        ("- true", "wrong-type", 9, "- 'true'"),
        ("- 1.0", "wrong-type", 9, "- '1.0'"),
        ("- null", "wrong-type", 9, "- 'null'"),
        ("- # all", "wrong-type", 8, "# all"),
        ("- [ -f x ]", "wrong-type", 9, "- '[ -f x ]'"),
        ("- { ls; }", "wrong-type", 9, "- '{ ls; }'"),
        ("- - x", "wrong-type", 9, "- '- x'"),
        ("- ? x", "wrong-type", 9, "- '? x'"),
        ("- [ -f x ] && y", "needs-quotes", 9, "- '[ -f x ] && y'"),
        ('- [ "$x" = y ] || z', "needs-quotes", 9, "- '[ \"$x\" = y ] || z'"),
        ("- {ls, x} && y", "needs-quotes", 9, "- '{ls, x} && y'"),
        ("- {{ x }}", "needs-quotes", 9, "- '{{ x }}'"),
        ("- *.txt", "needs-quotes", 9, "- '*.txt'"),
        ("- *x", "needs-quotes", 9, "- '*x'"),
        ("- !x y", "needs-quotes", 9, "- '!x y'"),
        ("- ! grep x y", "needs-quotes", 9, "- '! grep x y'"),
        ("- & ls", "needs-quotes", 9, "- '& ls'"),
        ("- > out", "needs-quotes", 9, "- '> out'"),
        ("- @x", "needs-quotes", 9, "- '@x'"),
        ("- `x` y", "needs-quotes", 9, "- '`x` y'"),
        ("- %x%", "needs-quotes", 9, "- '%x%'"),
        ('- "a" b', "needs-quotes", 9, "- '\"a\" b'"),
        ('- echo "a: b" "c: d"', "needs-quotes", 9, '- \'echo "a: b" "c: d"\''),
        ("[true]", "wrong-type", 8, "'true'"),
        ("[echo a: b]", "wrong-type", 8, "'echo a: b'"),
        ("[! grep x]", "wrong-tag", 8, None),
        ("-ls", "wrong-type", 7, "- ls"),
        ('-" train', "wrong-type", 7, None),
        # What may hold a secret is not shown, nor what does not fit on a line.
        ('- curl -H "Authorization: x"', "wrong-type", 9, None),
        ("- login --token x: y", "wrong-type", 9, None),
        ("- export PASSWORD=x: y: z", "needs-quotes", 9, None),
        ("- echo a: b\n        c: d", "wrong-type", 9, None),
        ("- 'a': " + "x" * 400, "wrong-type", 9, None),
    ],
)
def test_a_command_that_yaml_takes_for_something_else_is_shown_as_it_can_be_pasted(
    tmp_path: Path, written: str, code: str, column: int, suggestion: str | None
) -> None:
    (problem,) = problems_of_command(tmp_path, written)
    assert (problem.code, place(problem)) == (code, (_BEFORE.count("\n") + 1, column))
    assert problem.suggestion == suggestion


@pytest.mark.parametrize(
    "written",
    [
        '- python train.py \\\n          --title "a: b"',
        '- python train.py \\\n\n          --title "a: b" \\',
        '- echo "loss: 0.5" &&\n        echo done',
        "- echo a: b\n        and more",
    ],
)
def test_a_command_of_several_lines_is_named_where_it_starts(tmp_path: Path, written: str) -> None:
    (problem,) = problems_of_command(tmp_path, written)
    assert (problem.code, place(problem)) == ("needs-quotes", (_BEFORE.count("\n") + 1, 9))
    assert "'- |'" in problem.message


def test_what_is_suggested_for_a_command_is_that_command(tmp_path: Path) -> None:
    written = ['echo "loss: 0.5"', "it's: x", "true", "[ -f x ] && y", "! grep x", "*.txt", 'a \'b: "c"\\']
    for each in written:
        (problem,) = problems_of_command(tmp_path, f"- {each}")
        assert parse_document(str(problem.suggestion), "f").data == [each]


@pytest.mark.parametrize(
    "written", ["- yes", "- on", "- --x", "- echo a # b", "- a:b", "- ':'", "- |\n        a: b"]
)
def test_what_yaml_takes_for_text_is_a_command(tmp_path: Path, written: str) -> None:
    assert not problems_of_command(tmp_path, written)


@pytest.mark.parametrize(
    ("field", "suggestion"),
    [
        ("name: 12", "'12'"),
        ("name: 1.5", None),  # no name, in quotes neither
        ("description: true", "'true'"),
        ("description: {a: b}", None),  # hardly meant as text
        ("defaults:\n  deployment:1", "deployment: 1"),
        ("defaults:\n  deployment:1\n  virtualCluster:b", None),
    ],
)
def test_a_value_of_another_type_is_shown_as_it_was_probably_meant(
    tmp_path: Path, field: str, suggestion: str | None
) -> None:
    others = {key: value for key, value in job().items() if not field.startswith(f"{key}:")}
    (problem,) = load(tmp_path, f"{yaml_text(others)}{field}\n")
    assert (problem.code, problem.suggestion) == ("wrong-type", suggestion)


@pytest.mark.parametrize(
    ("commands", "folded"),
    [
        ("- echo a\n        - echo b\n", [(1, 9)]),
        ("- echo a\n       - echo b\n      - echo c\n        - echo d\n        - e\n", [(1, 8), (3, 9)]),
        ("- echo a\n        -n\n", []),
        ("- tool\n        --a - b\n", []),
        ("- |\n        cat <<E\n        - a\n        E\n", []),
        ("- 'echo\n        - a'\n", []),
        ("- echo a\n      - echo b\n", []),
    ],
)
def test_a_command_that_is_joined_to_the_one_above_is_a_warning(
    tmp_path: Path, commands: str, folded: list[tuple[int, int]]
) -> None:
    text = yaml.safe_dump(job(worker={"commands": "HERE"}), sort_keys=False)
    before, after = text.split("commands: HERE\n")
    line = before.count("\n") + 2
    problems = load(tmp_path, f"{before}commands:\n      {commands}{after}")
    assert [(each.code, each.severity) for each in problems] == [("wrong-indentation", "warning")] * len(
        folded
    )
    assert [place(each) for each in problems] == [(line + below, column) for below, column in folded]
