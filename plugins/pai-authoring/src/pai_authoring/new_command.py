"""``pai-runtime new``: a job file to begin with, by options or by asking, with comments and a schema."""

import argparse
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from pai_authoring.job_schema import job_schema
from pai_runtime.command.jobs import given_host
from pai_runtime.command.output import printable, say, write_lines
from pai_runtime.command.schemas import file_schema
from pai_runtime.plugin import Output

_CANNOT_RUN: Final = 2
_SCHEMA: Final = "job.schema.json"
_TEMPLATES: Final = ("program", "roles")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,255}")


@dataclass(frozen=True)
class _Question:
    """What is asked for, and what makes an answer one; `option` is the option that answers it."""

    option: str
    text: str
    default: str
    form: re.Pattern[str]
    expected: str

    def is_answered_by(self, text: str) -> bool:
        """Return whether a text is an answer; one with characters that are not seen is none."""
        return text.isprintable() and self.form.fullmatch(text) is not None


_NUMBER: Final = re.compile("[0-9]{1,6}")
_QUESTIONS: Final = (
    _Question(
        option="template",
        text="one program, or several roles that work together",
        default="program",
        form=re.compile("|".join(_TEMPLATES)),
        expected=" or ".join(_TEMPLATES),
    ),
    _Question("name", "the name of the job", "job", _NAME, "letters, digits, '-' and '_'"),
    _Question("command", "the command that it runs", "python3 train.py", re.compile(r".*\S.*"), "a command"),
    _Question(
        "image", "the image of its containers on a cluster", "python:3.12", re.compile(r"\S+"), "an image"
    ),
    _Question("cpu", "the number of CPUs of each task", "1", _NUMBER, "a number"),
    _Question("memory", "the memory of each task, in MB", "1024", _NUMBER, "a number"),
    _Question("gpu", "the number of GPUs of each task", "0", _NUMBER, "a number"),
)
_ANSWER: Final = "answer_"
"""The prefix of what options are called in the namespace, where the name of the command has its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=Path("job.yaml"),
        metavar="FILE",
        help="the job file (default: job.yaml)",
    )
    for each in _QUESTIONS:
        parser.add_argument(
            f"--{each.option}",
            dest=f"{_ANSWER}{each.option}",
            metavar="VALUE",
            help=f"{each.text} (default: {_said(each)})",
        )
    parser.add_argument("--yes", action="store_true", help="do not ask for what no option says")


def _said(question: _Question) -> str:
    return "that of the directory" if question.option == "name" else question.default


def main(args: argparse.Namespace, _: Output) -> int:
    """Return exit status 0, or 2 if the job could not be written, or an option has no valid value."""
    path: Path = args.file
    answers = {}
    for question in _QUESTIONS:
        given = getattr(args, f"{_ANSWER}{question.option}")
        if given is None:
            given = _default(question, path) if args.yes or not _can_ask() else _asked(question, path)
        if not question.is_answered_by(given):
            say(f"--{question.option}: expected {question.expected}, found {printable(given)!r}")
            return _CANNOT_RUN
        answers[question.option] = given
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_job(answers))
        written = [path, *_write_schema(path.with_name(_SCHEMA))]
    except FileExistsError:
        say(f"{path} exists already; name another file")
        return _CANNOT_RUN
    except OSError as error:
        say(f"cannot write {error.filename}: {error.strerror}")
        return _CANNOT_RUN
    write_lines([*map(str, written), f"to run it: pai-runtime run {path}"])
    return 0


def _job(answers: Mapping[str, str]) -> str:
    template = Path(__file__).with_name(f"{answers['template']}.yaml").read_text("utf-8")
    texts = {name: json.dumps(answers[name], ensure_ascii=False) for name in ("command", "image")}
    return Template(template).substitute({**answers, **texts, "schema": _SCHEMA})


def _write_schema(path: Path) -> list[Path]:
    """Write the schema that the job names, unless it is there, and return what was written."""
    if path.exists():
        return []
    schema = job_schema(file_schema("job"), given_host(None).usable)
    path.write_text(f"{json.dumps(schema, indent=2)}\n", "utf-8")
    return [path]


def _can_ask() -> bool:
    return os.isatty(0) and os.isatty(1)


def _asked(question: _Question, path: Path) -> str:
    """Ask until the answer is one; none is the default."""
    default = _default(question, path)
    while True:
        answer = input(f"{question.text} [{default}]: ").strip() or default
        if question.is_answered_by(answer):
            return answer
        say(f"expected {question.expected}")


def _default(question: _Question, path: Path) -> str:
    """Return what no answer means; the name of a job is that of its directory, where that can be one."""
    own = path.absolute().parent.name
    return own if question.option == "name" and _NAME.fullmatch(own) else question.default
