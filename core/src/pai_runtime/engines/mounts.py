"""The mounts of a plan, as folders of this machine."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pai_runtime.engines.isolation import Bind
from pai_runtime.engines.run_folder import CannotRun
from pai_runtime.task.plan import Plan


def check_storages(plans: Iterable[Plan], storages: Mapping[str, Path]) -> None:
    """That every storage which a plan mounts is given, and is a folder; else raises `CannotRun`."""
    missing = {
        planned.mount.source: f"{planned.mount.path}, for {plan.uses[planned.use].label}"
        for plan in plans
        for planned in plan.mounts
        if planned.mount.source not in storages
    }
    faults = [
        f"the storage '{source}' is mounted at {where}; say which folder it is here: --storage {source}=DIR"
        for source, where in missing.items()
    ]
    faults += [
        f"the storage '{name}' is {folder}, which is not a folder"
        for name, folder in storages.items()
        if not folder.is_dir()
    ]
    if faults:
        raise CannotRun("; ".join(faults))


def binds(plan: Plan, storages: Mapping[str, Path], user: str, job: str) -> list[Bind]:
    """What a task sees where. Sub-paths that are not there are made."""
    found = []
    for mount in (planned.mount for planned in plan.mounts):
        folder = storages[mount.source] / mount.sub_path.replace("%USER", user).replace("%JOB", job)
        folder.mkdir(parents=True, exist_ok=True)
        found.append(Bind(str(folder.absolute()), mount.path, mount.read_only))
    return sorted(found, key=lambda bind: bind.target.count("/"))  # an outer one must not hide an inner one
