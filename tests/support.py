"""What tests of several packages use."""

import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jsonschema
import pytest
import yaml

from pai_document.schemas import package_schema
from tests.forked_command import can_be_forked, forked_command

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
JOBS = ROOT / "tests" / "jobs"
PROGRAM = Path(sys.executable).with_name("pai-runtime")


_C = TypeVar("_C")
_T = TypeVar("_T")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills, once for all processes that run these tests."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            try:
                make(folder)
            except BaseException:  # the others must not take it for made
                shutil.rmtree(folder)
                raise
    return folder


def cli(
    *args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The real command, in a process of its own; `env` is added to this process's environment."""
    if can_be_forked(env or {}):
        ended = forked_command(list(map(str, args)), cwd, {**os.environ, **(env or {})})
        texts = (_text(ended.stdout), _text(ended.stderr))
        return subprocess.CompletedProcess(ended.args, ended.returncode, *texts)
    return subprocess.run(
        [PROGRAM, *map(str, args)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _text(data: bytes) -> str:
    """As `subprocess` makes it of bytes."""
    return io.TextIOWrapper(io.BytesIO(data)).read()


_EACH = """
import json, sys
from pai_runtime.cli import main
for args in json.loads(sys.argv[1]):
    sys.argv[1:] = args
    end = f"\\f{main()}"
    print(end, flush=True)
    print(end, file=sys.stderr, flush=True)
"""
"""Runs one command line after the other, and writes a form feed and the exit status after each."""


def cli_each(
    *lines: Sequence[str | Path], env: Mapping[str, str] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """The real command with one command line after the other, all in one process, which starts but once.

    None of them may be one that argparse refuses.
    """
    argv = [[str(arg) for arg in line] for line in lines]
    ended = subprocess.run(
        [sys.executable, "-c", _EACH, json.dumps(argv)],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    each = zip(argv, _PARTS.findall(ended.stdout), _PARTS.findall(ended.stderr), strict=True)
    return [
        subprocess.CompletedProcess(args, int(status), stdout, stderr)
        for args, (stdout, status), (stderr, _) in each
    ]


_PARTS = re.compile(r"([^\f]*)\f(\d+)\n")


def until(look: Callable[[], _T]) -> _T:
    """What `look` finds, once it finds something; the time limit of the test ends it."""
    while not (found := look()):
        time.sleep(0.01)
    return found


def content(path: Path) -> bytes:
    """Of a file that whoever has it may be about to remove; nothing if it is gone."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before, or after, the file was opened
        return False


def in_turn(commands: Sequence[_C], conditions: Sequence[_T]) -> list[tuple[_C, _T]]:
    """Each command under two of the conditions, and each condition with one command at least.

    What they have in common goes one way for all commands, so that not every pair is needed.
    """
    pairs = [
        (command, conditions[(number + step * len(conditions) // 2) % len(conditions)])
        for number, command in enumerate(commands)
        for step in (0, 1)
    ]
    assert all(any(condition == each for _, each in pairs) for condition in conditions)
    return pairs


def job(**fields: Any) -> dict[str, Any]:
    """A small valid job with one role ``worker``, which runs ``true``; `fields` replace its own.

    ``worker`` among the fields is merged into that role.
    """
    worker = {
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
        "commands": ["true"],
        **fields.pop("worker", {}),
    }
    image = {"name": "image", "type": "dockerimage", "uri": "example/image"}
    prerequisites = [image, *fields.pop("prerequisites", [])]
    return {
        "protocolVersion": 2,
        "name": "test",
        "type": "job",
        "prerequisites": prerequisites,
        "taskRoles": {"worker": worker},
        **fields,
    }


NOT_ANALYSED = {"failure_analysis": {"enabled": False}}
"""In ``extras``: a task that fails has no analysis, which takes as much time as all else of it."""


def callback(event: str, *commands: str, **more: Any) -> dict[str, Any]:
    """One callback of the cmd plugin."""
    return {"event": event, "commands": list(commands), **more}


def runtime_log(task: Path) -> list[str]:
    """The texts of the ``runtime.log`` in the folder of a task, without their date."""
    lines = (task / "logs" / "runtime.log").read_text("utf-8").splitlines()
    return [line.partition("[openpai-runtime] ")[2] for line in lines]


def exit_record(task: Path) -> dict[str, Any]:
    """The exit record in the folder of a task."""
    record: dict[str, Any] = yaml.load((task / "exit.yaml").read_text("utf-8"), yaml.CSafeLoader)
    return record


def write_job(folder: Path, document: Mapping[str, Any] | str, name: str = "job.yaml") -> Path:
    """A job file with this content."""
    path = folder / name
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path


def line_of(folder: Path, text: str) -> int:
    """The line of the job in a folder that has a text, from 1."""
    lines = (folder / "job.yaml").read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@cache
def validator(package: str, file: str) -> Any:
    """Checks documents against a schema of a package."""
    schema = package_schema(package, file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
