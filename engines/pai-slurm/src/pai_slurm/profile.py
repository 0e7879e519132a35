"""An engine profile for Slurm, typed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pai_runtime.engine import Problems, Profile
from pai_runtime.engine.documents import check_value, package_schema, written_path

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


@dataclass(frozen=True)
class SlurmProfile:
    """The way in which a Slurm cluster is used.

    `runs` is the shared directory of the runs. `allocation` has the values of options of ``sbatch``, by their
    names without hyphens; empty for one without a value.
    """

    name: str
    runs: Path
    allocation: Mapping[str, str] = field(default_factory=dict)


def read_profile(profile: Profile) -> SlurmProfile:
    """Return the content of a profile. Raises `InvalidInput` with all of its problems."""
    root, problems = profile.value, Problems()
    check_value(root, package_schema("pai_slurm", "profile.schema.json"), problems)
    problems.check()
    further = root.get("sbatch")
    for option in further.values() if further else ():
        if option.key in _OURS:
            problems.add(option.problem("not-for-profiles", "is set by the engine itself", at_key=True))
    problems.check()
    named = ("partition", "account", "qos", "constraint", "time")
    allocation = {name: str(root.data[name]) for name in named if name in root.data}
    allocation |= {
        name: "" if value is True else str(value) for name, value in root.data.get("sbatch", {}).items()
    }
    return SlurmProfile(profile.name, written_path(root.get("runs") or root), allocation)
