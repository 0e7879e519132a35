"""The library of shared definitions for a command: what is configured, under the policies in force."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pai_runtime.host.host import Host

# A job that names no definition must not wait for any of it.
# ruff: noqa: PLC0415

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_runtime.definitions.library import SourceLibrary
    from pai_runtime.definitions.model import OpenLibrary
    from pai_runtime.document.value import Value

MACHINE_CONFIGURATION: Final = Path("/etc/pai-runtime/marketplace.yaml")
"""What the cluster has configured; the user's own sources are asked before."""


def open_library(job: Path | None, host: Host) -> "OpenLibrary":
    """What opens the library for a job, when it is needed for the first time; `job` is its file."""
    return partial(_opened, job, host)


def _opened(job: Path | None, host: Host, secrets: Mapping[str, "Value"]) -> "SourceLibrary":
    from pai_runtime.definitions.fetching import Fetcher
    from pai_runtime.definitions.library import SourceLibrary
    from pai_runtime.definitions.sources import open_sources

    sources, web = open_sources(configurations(), secrets, Fetcher())
    return SourceLibrary(sources, web, host.location_refusal, job)


def user_configuration() -> Path | None:
    """The user's ``marketplace.yaml`` (XDG Base Directory Specification); None without a home directory."""
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        base = base if base.is_absolute() else Path.home() / ".config"
    except RuntimeError:
        return None
    return base / "pai-runtime" / "marketplace.yaml"


def configurations() -> Sequence[Path]:
    """The files with sources, those that are asked first before the others; they need not exist."""
    return [path for path in (user_configuration(), MACHINE_CONFIGURATION) if path]
