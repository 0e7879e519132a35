"""The code of a job, for which OpenPAI has no place: in the job itself, or on one of the cluster's storages.

The commands of each task role unpack it, in plain shell, since the pods may have OpenPAI's own runtime.
"""

import base64
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pai_openpai.job_check import MOST_BYTES
from pai_runtime.engine import Code
from pai_runtime.engine.code import STORAGE, STORED_IN, Carrier, PackedCode, pack_code, stored_name

PARAMETERS: Final = "parameters"
"""The section of a submitted job that has only its code: references to all other parameters are resolved."""
MOUNT: Final = "/mnt/pai-code"
"""Where tasks have the storage with the code, unless the job mounts it."""

_PARAMETER: Final = "code"
_MOST_IN_COMMANDS: Final = 512 * 1024
"""Maximum bytes of the code in the commands of all task roles: etcd takes 1.5 MiB of a job in all."""
_DIRECTORY: Final = '"${TMPDIR:-/tmp}/pai-code"'
_COPY: Final = '"${TMPDIR:-/tmp}/pai-code.tar.gz"'
_ENTER: Final = f"mkdir -p {_DIRECTORY}\ncd {_DIRECTORY}\n"


@dataclass(frozen=True)
class SubmittedCode:
    """Code as a job carries it: in itself, or on the `storage` of this name."""

    packed: PackedCode
    storage: str = ""

    def parameters(self) -> dict[str, str]:
        """Return the section `PARAMETERS`, one copy, which the server puts into the commands of all roles."""
        return {} if self.storage else {_PARAMETER: base64.b64encode(self.packed.archive).decode()}

    def commands(self, mounted: str) -> str:
        """Return the lines that unpack it and enter its directory; `mounted` is where the storage is."""
        if not self.storage:
            return f"{_ENTER}printf %s '<% ${PARAMETERS}.{_PARAMETER} %>' | base64 -d | tar -xzf -\n"
        name = stored_name(self.packed.digest)
        digest = name.partition(".")[0]
        # A copy, since others can write to the storage in the meantime.
        return (
            f"{_ENTER}cp {shlex.quote(f'{mounted}/{STORED_IN}/{name}')} {_COPY}\n"
            f"printf '%s  %s\\n' {digest} {_COPY} | sha256sum -c - > /dev/null\n"
            f"tar -xzf {_COPY}\nrm {_COPY}\n"
        )


def submitted_code(
    files: Code, storage: str, roles: int, size: Callable[[SubmittedCode], int]
) -> SubmittedCode:
    """Pack code for a storage, or, if that is empty, for a job with so many task roles.

    `size` returns the number of bytes of the job with some code. Raises `CannotRun` if the code is too large,
    and `InvalidInput`.
    """
    if storage:
        return SubmittedCode(pack_code(files, STORAGE), storage)
    left = MOST_BYTES - size(SubmittedCode(PackedCode(b"", "", 0)))
    most = max(0, min(left, _MOST_IN_COMMANDS // roles)) // 4 * 3  # for base64
    limits = f"at most {MOST_BYTES} bytes in all; the profile names no storage for code"
    return SubmittedCode(pack_code(files, Carrier(f"a job on OpenPAI ({limits})", most)))
