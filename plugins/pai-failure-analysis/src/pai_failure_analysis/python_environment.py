"""The Python environment with which a task that lacks a module started."""

import shutil
from collections.abc import Mapping

MODULE_NOT_FOUND = "ModuleNotFound"
"""The phrase of the rule for a missing module."""

_ACTIVATED = ("VIRTUAL_ENV", "CONDA_PREFIX")


def advice(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what to do if no Python environment is activated; empty if one is."""
    python = shutil.which("python3", path=environment.get("PATH", ""))
    if python is None or any(map(environment.get, _ACTIVATED)):
        return ()
    began = f"The task began with {python}, as no environment (venv, conda) was activated"
    return (f"{began}; activate the one with the module before pai-runtime run, or in the commands",)
