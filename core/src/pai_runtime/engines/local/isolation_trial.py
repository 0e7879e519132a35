"""Whether this machine can isolate tasks: by isolating a process that does nothing."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pai_runtime.engines.local.isolation import Isolated, Isolation, clean_up, make_folders
from pai_runtime.engines.local.mounting import Refused
from pai_runtime.engines.local.process import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, answer_of
from pai_runtime.task.folder import Folder


@dataclass(frozen=True)
class Trial:
    """The kinds of namespaces that it takes, and the folders that are then read-only; or why it cannot be."""

    refusal: str | None
    namespaces: int = 0
    read_only: tuple[str, ...] = ()


def try_out(scratch: Path) -> Trial:
    """Isolate a process; `scratch` is made and removed.

    Raises OSError where it is not the kernel that refuses, but something goes wrong.
    """
    scratch.mkdir()
    with Folder.at(scratch.parent) as above, Folder.at(scratch) as run:
        try:
            trial = _first_that_works(run)
        finally:
            above.remove(scratch.name)
    return trial


def _first_that_works(run: Folder) -> Trial:
    ordinary = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER
    if os.geteuid() != 0:
        return _try(run, ordinary)
    trial = _try(run, CLONE_NEWNS | CLONE_NEWPID)
    # There is also a root without the rights of root.
    return trial if trial.refusal is None else _try(run, ordinary)


def _try(run: Folder, namespaces: int) -> Trial:
    with run.folder("task", make=True) as task:
        make_folders(task)
    isolated = Isolated(namespaces, (), ())
    isolation = Isolation(run.path, run.path / "task", run.path / "layers", isolated)
    try:
        answer = answer_of(namespaces, lambda: json.dumps(_enter(isolation)))
    except Refused as error:
        return Trial(f"{error.filename}: {error.strerror}")
    clean_up(run, "task", "layers")
    refusal, wrong, read_only = json.loads(answer or '[null, [5, "it ended without an answer", ""], []]')
    if wrong:
        raise OSError(*wrong)
    return Trial(refusal, namespaces, tuple(read_only))


def _enter(isolation: Isolation) -> tuple[str | None, list[Any] | None, list[str]]:
    """Why the kernel refuses it; what else has gone wrong; and what is read-only."""
    try:
        isolation.enter()
    except Refused as error:
        return f"{error.filename}: {error.strerror}", None, []
    except OSError as error:
        return None, [error.errno, error.strerror, str(error.filename)], []
    return None, None, isolation.read_only
