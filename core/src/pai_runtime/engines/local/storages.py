"""The mounts of a plan as directories on this machine."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from pai_document.document import read_document
from pai_document.problems import InvalidInput, unexpected
from pai_runtime.engines.local.launch import Bind
from pai_runtime.plan.mounts import conflict, overlap
from pai_runtime.runs.errors import CannotRun
from pai_task.folder import Folder
from pai_task.plan import Mount, Plan, UseRecord


def read_storages(path: Path) -> dict[str, Path]:
    """Read a file that maps names of storages to directories. Raises `InvalidInput`.

    Relative paths are resolved against the folder of the file.
    """
    root = read_document(path)
    if not isinstance(root.data, dict):
        message = "expected a mapping from names of storages to directories"
        raise InvalidInput([root.problem("not-a-mapping", message)])
    expected = "a directory on this machine"
    wrong = [
        folder.problem("wrong-type", unexpected(expected, None), expected=expected)
        for folder in root.values()
        if not isinstance(folder.data, str) or not folder.data
    ]
    if wrong:
        raise InvalidInput(wrong)
    return {str(folder.key): path.parent / folder.data for folder in root.values()}


def check_storages(plans: Iterable[Plan], storages: Mapping[str, Path]) -> list[str]:
    """Return notes about optional storages that have no directory here. Raises `CannotRun` for required ones.

    An NFS export that is not given is left to the task, which mounts it itself or says why it cannot.
    """
    faults: dict[str, str] = {}
    missing: dict[str, str] = {}
    for plan in plans:
        for planned in plan.mounts:
            mount, use = planned.mount, plan.uses[planned.use]
            folder = storages.get(mount.source)
            if folder is not None and not folder.is_dir():
                faults[mount.source] = f"{folder}, which is not a directory"
            elif folder is None and mount.kind == "nfs":
                missing[mount.source] = "is mounted by the tasks themselves"
            elif folder is None and use.failure_policy == "ignore":
                missing[mount.source] = "is not mounted, and its failurePolicy ignores that"
            elif folder is None:
                where = f"mounted at {mount.path}, for {use.label}"
                faults[mount.source] = f"{where}; use a local directory with --storage {mount.source}=DIR"
    if faults:
        raise CannotRun("; ".join(f"the storage '{source}' is {fault}" for source, fault in faults.items()))
    return [
        f"the storage {source} {what}; to use a local directory, add --storage {source}=DIR"
        for source, what in missing.items()
    ]


def not_mounted(plans: Iterable[Plan], reason: str) -> list[str]:
    """Return notes about mounts that are skipped because tasks are not isolated, for this `reason`.

    Raises `CannotRun` for a mount that must not be skipped.
    """
    mounts = {planned.mount.path: plan.uses[planned.use] for plan in plans for planned in plan.mounts}
    for path, use in mounts.items():
        if use.failure_policy == "fail":
            raise CannotRun(f"cannot mount {path}: tasks are not isolated ({reason})")
    return [
        f"{path} is not mounted, and the failurePolicy of {use.label} ignores that ({reason})"
        for path, use in mounts.items()
    ]


def image_binds(plan: Plan, storages: Mapping[str, Path], run: Path, *, make: bool) -> list[Bind]:
    """Return the bind mounts of a task in its image, outer ones first; `make` creates missing directories.

    Whatever mounts them takes whole paths, so `below` is part of their sources. Raises `CannotRun`, also for
    a failed operation.
    """
    try:
        found = _binds(plan, storages, run, os.path.normpath, make=make)
    except OSError as error:
        raise CannotRun(f"the directory of a storage: {error.filename}: {error.strerror}") from None
    return [Bind(str(Path(bind.source, bind.below)), bind.target, bind.read_only) for bind in found]


def binds(plan: Plan, storages: Mapping[str, Path], run: Path, *, make: bool) -> list[Bind]:
    """Return the bind mounts of a task, outer ones first; `make` creates missing directories.

    Links in their targets are resolved, as they are now. Raises `CannotRun` for a mount inside a read-only
    storage without a place for it, for a conflict that only resolving the links shows, and for one that would
    hide or show the folder of the `run`; OSError for a failed operation, also where a link is in the way, as
    anybody may put it.
    """
    return _binds(plan, storages, run, cache(os.path.realpath), make=make)


def _binds(
    plan: Plan, storages: Mapping[str, Path], run: Path, real: Callable[[str], str], *, make: bool
) -> list[Bind]:
    """Return bind mounts; `real` resolves the links in their targets and in `run` that are known there."""
    found: list[Bind] = []
    before: list[tuple[Mount, UseRecord]] = []
    for mount, use in sorted(_given(plan, storages), key=lambda given: real(given[0].path).count("/")):
        if fault := conflict(mount, before, real):
            raise CannotRun(f"use {use.label}: {fault}")
        before.append((mount, use))
        storage, target = storages[mount.source].absolute(), real(mount.path)
        _keep_apart(run, mount, storage, real)
        if mount.sub_path and make:
            with Folder.at(storage) as folder:
                folder.make(mount.sub_path)
        outer = next((bind for bind in reversed(found) if Path(target).is_relative_to(bind.target)), None)
        if outer:
            _make_mount_point(outer, mount, target, make=make)
        found.append(Bind(str(storage), target, mount.read_only, mount.sub_path))
    return found


def _given(plan: Plan, storages: Mapping[str, Path]) -> Iterator[tuple[Mount, UseRecord]]:
    return (
        (planned.mount, plan.uses[planned.use]) for planned in plan.mounts if planned.mount.source in storages
    )


def _keep_apart(run: Path, mount: Mount, storage: Path, real: Callable[[str], str]) -> None:
    """Raise `CannotRun` for a mount that would hide or show the folder of the run, or be inside of it."""
    if overlap(real(str(run)), real(mount.path)):
        raise CannotRun(
            f"{mount.source} is mounted at {mount.path}, where the directory of the run is, {run}; "
            "choose another directory with --out, or run from another one"
        )
    if overlap(os.path.realpath(run), os.path.realpath(storage / mount.sub_path)):
        raise CannotRun(
            f"the directory of the run, {run}, is inside the storage {mount.source}, {storage}, where "
            "a task would see it; choose another directory with --out"
        )


def _make_mount_point(outer: Bind, mount: Mount, target: str, *, make: bool) -> None:
    name = str(Path(outer.below) / Path(target).relative_to(outer.target))
    with Folder.at(Path(outer.source)) as folder:
        if outer.read_only and not folder.exists(name):
            raise CannotRun(
                f"{mount.source} is mounted at {mount.path}, inside a read-only storage: "
                f"create the directory {folder.path / name} for it"
            )
        if make:
            folder.make(name)
