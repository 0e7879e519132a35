"""The engine for containers on this machine, which runs each task of a local run in one of its image."""

from typing import TYPE_CHECKING

from pai_runtime.plugin import hookimpl

if TYPE_CHECKING:
    from pai_runtime.engine import Engine, Profile


@hookimpl
def pai_engine(profile: "Profile") -> "Engine":
    """Open the engine for what ``--container`` says, which is the field ``program`` of the profile."""
    from pai_container.engine import ContainerEngine  # noqa: PLC0415 - only what is used is imported

    return ContainerEngine(profile.value.data["program"])
