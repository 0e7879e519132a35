"""The policy under which a command works: that of the command line, else of the environment."""

import os
from pathlib import Path

from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY, read_policy
from pai_runtime.problems import InvalidInput, Problem

POLICY_VARIABLE = "PAI_RUNTIME_POLICY"


def given_host(path: Path | None, *, manifests: bool = True) -> Host:
    """The host under the policy of the command line, else of the environment.

    `manifests`: see `Host`. Raises `InvalidInput` for a policy that cannot be read or understood: nothing is
    done under it.
    """
    if path is None and POLICY_VARIABLE in os.environ:
        if not os.environ[POLICY_VARIABLE]:
            message = f"{POLICY_VARIABLE} is set and names no policy; unset it to allow all plugins"
            raise InvalidInput([Problem(message)])
        path = Path(os.environ[POLICY_VARIABLE])
    return Host(read_policy(path) if path is not None else NO_POLICY, manifests=manifests)
