"""The cluster's exit spec, which the platform mounts into the init container alone."""

from collections.abc import MutableMapping

from pai_runtime.pod.config_files import find_file, read_text
from pai_runtime.pod.directories import Directories
from pai_runtime.task.folder import Folder

NAME = "runtime-exit-spec.yaml"
VARIABLE = "PAI_RUNTIME_EXIT_SPEC"


def leave_exit_spec(environment: MutableMapping[str, str], directories: Directories, runtime: Folder) -> None:
    """Copy it to where the plan is made, and have the variable name it; raises `InvalidInput`, OSError."""
    path = find_file(directories.configs, NAME)
    if path is not None and path.is_file():
        runtime.write(NAME, read_text(path), sync=False)
        if not environment.get(VARIABLE):
            environment[VARIABLE] = str(directories.runtime / NAME)
