"""The library of a pod: the definitions that it was given, and those of the runtime image."""

from collections.abc import Mapping

from pai_runtime.definitions.cache import Cache
from pai_runtime.definitions.configuration import MACHINE_CONFIGURATION, read_sources
from pai_runtime.definitions.fetching import Fetcher
from pai_runtime.definitions.library import SourceLibrary
from pai_runtime.definitions.lock import RESOLVED, read_lock
from pai_runtime.definitions.locked import LockedLibrary
from pai_runtime.definitions.model import Library
from pai_runtime.definitions.sources import open_sources
from pai_runtime.document.value import Value
from pai_runtime.host.host import Host
from pai_runtime.pod.config_files import find_file
from pai_runtime.pod.directories import Directories

_COMMAND = f"pai-runtime lock JOB --with-content {RESOLVED}"


def open_library(directories: Directories, host: Host, secrets: Mapping[str, Value]) -> Library:
    """Open the library of a pod's job, which uses no network: a pod must not wait for one to start.

    A lock file in the pod's configuration applies like one beside a job file.
    """
    sources, web = open_sources(read_sources([MACHINE_CONFIGURATION]), secrets, Fetcher(offline=True))
    library = SourceLibrary(sources, web, host.location_refusal)
    path = find_file(directories.configs, RESOLVED)
    return LockedLibrary(library, read_lock(path), Cache(), _COMMAND) if path else library
