"""An engine profile for Slurm, typed."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pai_runtime.engine import Problems, Profile, Value
from pai_runtime.engine.classes import field, record
from pai_runtime.engine.documents import check_value, package_schema, written_path
from pai_slurm.images import Images

TIME: Final = "time-limit"
REQUEUE: Final = "requeue"
"""Options of a run, which take precedence over the profile."""

_OURS: Final = (
    "chdir",
    "comment",
    "export",
    "input",
    "job-name",
    "output",
    "error",
    "requeue",
    "wrap",
    "array",
)
"""Options of ``sbatch`` that a run depends on."""


@record(frozen=True)
class SlurmProfile:
    """The way in which a Slurm cluster is used.

    `runs` is the shared directory of the runs. `allocation` has the values of options of ``sbatch``, by their
    names without hyphens; empty for one without a value. `images` says how they are run, if they are.
    `storages` maps names to directories.
    """

    name: str
    runs: Path
    allocation: Mapping[str, str] = field(default_factory=dict)
    images: Images | None = None
    storages: Mapping[str, Path] = field(default_factory=dict)
    requeues: bool = False


def read_profile(profile: Profile) -> SlurmProfile:
    """Return the content of a profile. Raises `InvalidInput` with all of its problems."""
    root, problems = profile.value, Problems()
    check_value(root, package_schema("pai_slurm", "profile.schema.json"), problems)
    problems.check()
    for option in _items(root.get("sbatch")):
        if option.key in _OURS:
            problems.add(option.problem("not-for-profiles", "is set by the engine itself", at_key=True))
    problems.check()
    named = ("partition", "account", "qos", "constraint", "time")
    allocation = {name: str(root.data[name]) for name in named if name in root.data}
    allocation |= {
        name: "" if value is True else str(value) for name, value in root.data.get("sbatch", {}).items()
    }
    return SlurmProfile(
        profile.name,
        written_path(root.get("runs") or root),
        allocation,
        _images(root.get("images")),
        {str(each.key): written_path(each) for each in _items(root.get("storages"))},
        root.data.get("requeue", False),
    )


def _images(found: Value | None) -> Images | None:
    if found is None:
        return None
    folder = found.get("folder")
    return Images(str(found.data["program"]), str(written_path(folder)) if folder else "")


def _items(found: Value | None) -> Iterable[Value]:
    return found.values() if found else ()
