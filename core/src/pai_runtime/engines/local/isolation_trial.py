"""A test whether this machine can isolate tasks, with a process that does nothing."""

import errno
import json
import os
from pathlib import Path
from typing import Any

from pai_runtime.engines.local.isolation import Isolation, clean_up, make_folders
from pai_runtime.engines.local.launch import Isolated
from pai_runtime.engines.local.namespaces import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, Refused, clone
from pai_task.folder import Folder
from pai_task.record import record


@record(frozen=True)
class Trial:
    """The result of a trial: the namespaces that isolation needs and read-only directories, or a refusal."""

    refusal: str | None
    namespaces: int = 0
    read_only: tuple[str, ...] = ()


def try_out(scratch: Path) -> Trial:
    """Isolate a process for a trial; `scratch` is created and removed.

    Raises OSError for errors other than a refusal of the kernel.
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
    isolated = Isolated(namespaces, str(run.path), str(run.path / "layers"))
    try:
        answer = _answer_of(Isolation(run.path / "task", isolated), namespaces)
    except Refused as error:
        return Trial(f"{error.filename}: {error.strerror}")
    clean_up(run, "task", "layers")
    if not answer:
        raise OSError(errno.EIO, "the trial process ended without a result", "the trial")
    said = json.loads(answer)
    if "wrong" in said:
        raise OSError(*said["wrong"])
    return Trial(said.get("refused"), namespaces, tuple(said.get("readOnly", ())))


def _answer_of(isolation: Isolation, namespaces: int) -> str:
    """Return what entering an isolation gives, in a process of its own; empty if that process dies."""
    read, write = os.pipe()
    with os.fdopen(read, encoding="utf-8") as answer:
        try:
            pid = clone(namespaces)
            if pid == 0:
                try:
                    os.write(write, json.dumps(_enter(isolation)).encode())
                finally:
                    os._exit(0)
        finally:
            os.close(write)
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def _enter(isolation: Isolation) -> dict[str, Any]:
    """Return the read-only directories of an isolation, the kernel's refusal, or another error."""
    try:
        isolation.enter()
    except Refused as error:
        return {"refused": f"{error.filename}: {error.strerror}"}
    except OSError as error:
        return {"wrong": [error.errno, error.strerror, str(error.filename)]}
    return {"readOnly": isolation.read_only}
