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
    from pai_runtime.definitions.configuration import SourceSettings
    from pai_runtime.definitions.library import SourceLibrary
    from pai_runtime.definitions.model import DefinitionSource, OpenLibrary
    from pai_runtime.definitions.web import Web
    from pai_runtime.document.value import Value

MACHINE_CONFIGURATION: Final = Path("/etc/pai-runtime/marketplace.yaml")
"""What the cluster has configured; the user's own sources are asked before."""


def open_library(job: Path | None, host: Host) -> "OpenLibrary":
    """What opens the library for a job, when it is needed for the first time; `job` is its file."""
    return partial(_opened, job, host)


def _opened(job: Path | None, host: Host, secrets: Mapping[str, "Value"]) -> "SourceLibrary":
    from pai_runtime.definitions.configuration import read_sources
    from pai_runtime.definitions.library import SourceLibrary

    sources, web = opened_sources(read_sources(configurations()), secrets)
    return SourceLibrary(sources, web, host.location_refusal, job)


def opened_sources(
    settings: "Sequence[SourceSettings]", secrets: Mapping[str, "Value"]
) -> "tuple[Sequence[DefinitionSource], Web]":
    """These sources and the embedded one, with what asks servers; `secrets` may be tokens of theirs."""
    from pai_runtime.definitions.fetching import Fetcher
    from pai_runtime.definitions.sources import open_sources

    return open_sources(settings, secrets, Fetcher())


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
