"""The storages of a job as directories of the shared file system, as the engine profile names them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pai_runtime.engine import CannotRun, Plan


def is_in_place(path: str, directory: Path) -> bool:
    """Return whether a directory is mounted where the job wants it, with nothing done for it."""
    real = os.path.realpath(path)
    if real == os.path.realpath(directory):
        return os.path.ismount(real)  # else what is to be mounted there is missing
    try:
        return Path(real).samefile(directory)  # by a bind mount
    except OSError:
        return False


def check_mounted(plans: Iterable[Plan], storages: Mapping[str, Path], *, in_images: bool) -> Iterator[str]:
    """Yield notes about the mounts of plans. Raises `CannotRun` for one that cannot be left out."""
    from pai_runtime.engine.local import check_storages  # noqa: PLC0415 - only what is used is imported

    plans = list(plans)
    yield from check_storages(plans, storages)
    for plan in plans if not in_images else ():
        for planned in plan.mounts:
            mount, storage = planned.mount, storages.get(planned.mount.source)
            if storage is None or is_in_place(mount.path, storage / mount.sub_path):
                continue
            why = f"{mount.path} is not mounted: tasks do not run in images, and see the nodes as they are"
            if plan.uses[planned.use].failure_policy != "ignore":
                raise CannotRun(why)
            yield why
