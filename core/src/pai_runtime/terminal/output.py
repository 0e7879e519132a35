"""The only place where commands print, so that no untrusted text reaches a terminal unescaped."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from pai_document.printable import printable
from pai_document.problems import Problem, problem_lines


def open_streams() -> None:
    """Open the standard streams that the caller has closed, so that no other file gets their descriptors."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while (opened := os.open(os.devnull, os.O_RDWR)) < fd:
                pass
            setattr(sys, name, os.fdopen(opened, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the terminal cannot show is no reason to fail
            stream.reconfigure(errors="backslashreplace")


def keep_streams() -> None:
    """Let no process that we start from now on have our standard streams: somebody may wait for their end."""
    sys.stdout, sys.stderr = (
        os.fdopen(os.dup(stream.fileno()), "w", encoding=stream.encoding, errors=stream.errors)
        for stream in (sys.stdout, sys.stderr)
    )
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.close(null)


def drop_streams() -> None:
    """Close our standard streams, after `keep_streams`; what is written from now on is lost."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.close()
    sys.stdout, sys.stderr = (os.fdopen(os.dup(0), "w") for _ in range(2))


class CannotWrite(Exception):
    """The exception for output that could not be written to standard output."""


def write_lines(lines: Iterable[str]) -> None:
    """Print lines to standard output, with control characters and line breaks inside them escaped."""
    text = "".join(f"{printable(line)}\n" for line in lines)
    with _output() as stream:
        stream.write(text)


def write_json(document: Any) -> None:
    """Print a document as JSON in ASCII to standard output."""
    text = json.dumps(document, indent=2, allow_nan=False).replace("\x7f", "\\u007f")
    with _output() as stream:
        stream.write(f"{text}\n")


def write_bytes(data: bytes) -> None:
    """Print output of tasks to standard output, unchanged."""
    with _output() as stream:
        stream.buffer.write(data)


def flush() -> None:
    """Flush standard output."""
    with _output() as stream:
        stream.flush()


def say(text: str) -> None:
    """Print a message of the program to standard error; standard output is for what was asked for."""
    report(f"pai-runtime: {text}")


def report(*lines: str) -> None:
    """Print lines to standard error; each should name what it is about."""
    with contextlib.suppress(OSError):  # there is nobody to tell; the exit status tells
        sys.stderr.writelines(f"{printable(line)}\n" for line in lines)
        sys.stderr.flush()


def report_problems(problems: Sequence[Problem], *, frames: bool = False) -> None:
    """Print problems to standard error, up to `MOST_SHOWN`; with their frames for ``--debug``."""
    report(*problem_lines(problems, frames=frames))


def columns() -> int | None:
    """Return the width in columns of the terminal that standard output is; None if it is none."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None


def drop_unwritten() -> None:
    """Discard buffered output that cannot be written, so that the interpreter does not report it at exit."""
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


def can_ask() -> bool:
    """Return whether somebody at a terminal sees a question, and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(question: str) -> bool:
    """Ask on the terminal, and return whether the answer is yes; no answer is none."""
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
