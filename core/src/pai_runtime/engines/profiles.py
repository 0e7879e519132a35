"""``engines.yaml``: the engine profiles of a user and of this machine, which ``--on`` names."""

from pathlib import Path
from typing import Final

from pai_runtime.document.value import Value
from pai_runtime.task.record import record

MACHINE_PROFILES: Final = Path("/etc/pai-runtime/engines.yaml")
"""What the operator has configured; the user's own profiles take precedence."""


@record(frozen=True)
class Profile:
    """One engine profile: its name, the engine that it is for, and all that is written there.

    `value` is a mapping; beside ``engine``, its engine checks what is in it.
    """

    name: str
    engine: str
    value: Value
