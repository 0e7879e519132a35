"""A command line that is refused shows the usage of the command that refuses it."""

import sys
from pathlib import Path

import pytest

from pai_runtime import cli
from pai_runtime.task.exit_codes import CANNOT_RUN


@pytest.mark.parametrize(
    ("line", "refusing"),
    [
        ("run --nope job.yaml", "pai-runtime run"),
        ("run job.yaml --nope", "pai-runtime run"),
        ("run job.yaml other.yaml", "pai-runtime run"),
        ("run job.yaml --timeout soon", "pai-runtime run"),
        ("ps --nope", "pai-runtime ps"),
        ("plugins list --nope", "pai-runtime plugins list"),
        ("analyze --nope log", "pai-runtime analyze"),
        ("nope", "pai-runtime"),
    ],
)
def test_an_error_in_a_command_line_shows_that_commands_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, refusing: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["pai-runtime", *line.split()])
    with pytest.raises(SystemExit) as refused:
        cli.main()
    lines = capsys.readouterr().err.splitlines()
    assert refused.value.code == CANNOT_RUN
    assert lines[0].startswith(f"usage: {refusing} [-h]")
    assert lines[-1].startswith(f"{refusing}: error: ")


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


@pytest.mark.parametrize(
    ("typed", "meant"), [("vaildate", "validate"), ("log", "logs"), ("marketplce", "marketplace")]
)
def test_a_misspelt_command_is_answered_with_the_one_that_was_meant(
    typed: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pai-runtime", typed])
    with pytest.raises(SystemExit):
        cli.main()
    assert f"did you mean {meant}?" in capsys.readouterr().err


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
