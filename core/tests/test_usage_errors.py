"""A command line that is refused is answered in one line, by the command that refuses it."""

import shlex
import sys
from pathlib import Path

import pytest

from pai_runtime import cli
from pai_task.exit_codes import CANNOT_RUN


def refusal(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that answers a command line."""
    monkeypatch.setattr(sys, "argv", ["pai-runtime", *line.split()])
    with pytest.raises(SystemExit) as refused:
        cli.main()
    assert refused.value.code == CANNOT_RUN
    written = capsys.readouterr()
    (said,) = written.err.splitlines()
    assert not written.out
    return said


@pytest.mark.parametrize(
    ("line", "refusing", "named"),
    [
        ("run --nope job.yaml", "pai-runtime run", "--nope"),
        ("run job.yaml --nope=5", "pai-runtime run", "--nope"),
        ("run job.yaml other.yaml", "pai-runtime run", "other.yaml"),
        ("run job.yaml --timeout soon", "pai-runtime run", "--timeout"),
        ("ps -n", "pai-runtime ps", "-n"),
        ("plugins list --nope", "pai-runtime plugins list", "--nope"),
        ("analyze --nope log", "pai-runtime analyze", "--nope"),
        ("exec --nope", "pai-runtime exec", "--nope"),
        ("prune", "pai-runtime prune", "--older-than"),
        ("nope", "pai-runtime", "nope"),
        ("--nope ps", "pai-runtime", "--nope"),
        ("\x1b[2J", "pai-runtime", "\\x1b[2J"),
    ],
)
def test_a_wrong_command_line_is_answered_in_one_line_that_names_the_help(
    line: str,
    refusing: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = refusal(line, monkeypatch, capsys)
    assert said.startswith(f"{refusing}: ")
    assert named in said
    assert said.endswith(f"; see {refusing} --help")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("vaildate", "validate"),
        ("log", "logs"),
        ("marketplce", "marketplace"),
        ("marketplace lst", "list"),
        ("logs --follw", "--follow"),
        ("logs worker --tial 5", "--tail"),
        ("run --timout 5m job.yaml", "--timeout"),
        ("prune --oldr-than 7d", "--older-than"),
        ("run job.yaml --isolation nne", "none"),
        ("exec --onn", "--on"),
    ],
)
def test_what_is_misspelt_is_answered_with_what_was_meant(
    line: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"did you mean {meant}?" in refusal(line, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("logs hello-1 --tail 5 worker/0", "task", "worker/0"),
        ("logs -f hello-1 --attempt 0 worker/0 --timestamps", "task", "worker/0"),
        ("rm hello-1 hello-2", "runs", ["hello-1", "hello-2"]),
        ("validate one.yaml --strict two.yaml", "jobs", [Path("one.yaml"), Path("two.yaml")]),
    ],
)
def test_options_may_stand_between_arguments(line: str, name: str, expected: object) -> None:
    command, *_ = line.split()
    parser, _ = cli.make_parser([command])
    assert getattr(parser.parse_args(line.split()), name) == expected


@pytest.mark.parametrize("columns", ["", "wide", "-3", "1", "9" * 5000])
def test_whatever_the_width_of_the_terminal_is_said_to_be_there_is_a_usage(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    parser, _ = cli.make_parser(["ps"])
    assert parser.format_usage().startswith("usage: pai-runtime")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_example_in_the_help_of_a_command_is_one_that_it_takes(name: str) -> None:
    line = shlex.split(cli.COMMANDS[name].example)
    parser, _ = cli.make_parser([name], [])
    assert parser.parse_args(line).module


@pytest.mark.parametrize("columns", ["1", "60", "200"])
@pytest.mark.parametrize("args", [["--help"], ["logs", "--help"], ["analyze", "--help"]])
def test_the_help_fits_every_terminal_and_shows_groups_or_an_example(
    args: list[str], columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "argv", ["pai-runtime", *args])
    with pytest.raises(SystemExit):
        cli.main()
    shown = capsys.readouterr().out.splitlines()
    assert ("look at runs:" if len(args) == 1 else "example:") in shown
    assert columns == "1" or max(map(len, shown)) <= int(columns)
