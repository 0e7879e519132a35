"""The cluster's exit spec, which the platform mounts into the init container only."""

from collections.abc import MutableMapping

from pai_pod.config_files import find_file, read_text
from pai_pod.directories import Directories
from pai_task.folder import Folder

NAME = "runtime-exit-spec.yaml"
VARIABLE = "PAI_RUNTIME_EXIT_SPEC"


def leave_exit_spec(environment: MutableMapping[str, str], directories: Directories, runtime: Folder) -> None:
    """Copy the exit spec to where the plan is made, and set its variable.

    Raises `InvalidInput` or OSError.
    """
    path = find_file(directories.configs, NAME)
    if path is not None and path.is_file():
        runtime.write(NAME, read_text(path), sync=False)
        if not environment.get(VARIABLE):
            environment[VARIABLE] = str(directories.runtime / NAME)
