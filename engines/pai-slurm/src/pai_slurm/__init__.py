"""The engine for Slurm, which runs a job in one allocation, whose tasks are steps."""

from typing import TYPE_CHECKING

from pai_runtime.plugin import hookimpl

if TYPE_CHECKING:
    from pai_runtime.engine import Engine, Profile


@hookimpl
def pai_engine(profile: "Profile") -> "Engine":
    """Open the cluster that a profile describes, or the allocation around us; raises `InvalidInput`."""
    if profile.value.data.get("within"):
        from pai_slurm.allocation_engine import AllocationEngine  # noqa: PLC0415 - only what is used is imported

        return AllocationEngine()
    from pai_slurm.cluster import SlurmCluster  # noqa: PLC0415 - as above

    return SlurmCluster(profile)
