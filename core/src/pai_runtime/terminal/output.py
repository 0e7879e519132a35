"""The one place where commands print, so that no untrusted text reaches a terminal unescaped."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from pai_runtime.document.printable import printable
from pai_runtime.document.problems import Problem, problem_lines


def open_streams() -> None:
    """Open the standard streams that the caller has closed, so that no file of ours gets their numbers."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while (opened := os.open(os.devnull, os.O_RDWR)) < fd:
                pass
            setattr(sys, name, os.fdopen(opened, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the terminal cannot show is no reason to fail
            stream.reconfigure(errors="backslashreplace")


class CannotWrite(Exception):
    """What was asked for could not be written to standard output."""


def write_lines(lines: Iterable[str]) -> None:
    """Print lines, whatever is in them; each is one line."""
    text = "".join(f"{printable(line)}\n" for line in lines)
    with _output() as stream:
        stream.write(text)


def write_json(document: Any) -> None:
    """Print a document, in ASCII."""
    text = json.dumps(document, indent=2, allow_nan=False).replace("\x7f", "\\u007f")
    with _output() as stream:
        stream.write(f"{text}\n")


def write_bytes(data: bytes) -> None:
    """Print the output of tasks, as it is."""
    with _output() as stream:
        stream.buffer.write(data)


def flush() -> None:
    """Write out all that was printed so far."""
    with _output() as stream:
        stream.flush()


def say(text: str) -> None:
    """A message to the person at the command line; standard output is for what was asked for."""
    report(f"pai-runtime: {text}")


def report(*lines: str) -> None:
    """Lines on standard error; each names what it is about."""
    with contextlib.suppress(OSError):  # there is nobody to tell; the exit status tells
        sys.stderr.writelines(f"{printable(line)}\n" for line in lines)
        sys.stderr.flush()


def report_problems(problems: Sequence[Problem]) -> None:
    """The problems, as far as they are shown, on standard error."""
    report(*problem_lines(problems))


def columns() -> int | None:
    """How wide the terminal is that shows the output; None if none does."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None


def drop_unwritten() -> None:
    """Discard what cannot be written, so that the interpreter does not report it when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def _output() -> Iterator[TextIO]:
    try:
        yield sys.stdout
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(f"cannot write standard output: {error.strerror}") from error
