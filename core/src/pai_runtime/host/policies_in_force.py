"""The policies in force for a command: the machine's, the environment's and the command line's."""

import os
from pathlib import Path

from pai_document.problems import InvalidInput, Problem
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY, read_policy
from pai_task.paths import MACHINE

MACHINE_POLICY = Path(MACHINE, "policy.yaml")
"""The machine's policy, in force wherever it exists, whatever the caller says."""

POLICY_VARIABLE = "PAI_RUNTIME_POLICY"


def given_host(path: Path | None, *, manifests: bool = True) -> Host:
    """Return the host under all policies in force, each of which can only narrow the others.

    `manifests`: see `Host`. Raises `InvalidInput` if a policy cannot be read: then nothing is done.
    """
    paths = [MACHINE_POLICY] if _may_be_there(MACHINE_POLICY) else []
    if POLICY_VARIABLE in os.environ:
        if not os.environ[POLICY_VARIABLE]:
            message = f"{POLICY_VARIABLE} is set but empty; unset it, or set it to the path of a policy"
            raise InvalidInput([Problem("no-policy", message)])
        paths.append(Path(os.environ[POLICY_VARIABLE]))
    if path is not None:
        paths.append(path)
    return Host(NO_POLICY, *map(read_policy, paths), manifests=manifests)


def _may_be_there(path: Path) -> bool:
    """Return whether a file may exist; True if unknown, so that reading it reports the error."""
    try:
        path.lstat()
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return True
