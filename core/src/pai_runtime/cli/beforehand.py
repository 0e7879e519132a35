"""What is said before a job runs, wherever that is."""

from collections.abc import Iterator, Mapping

from pai_runtime.task.masking import SHORTEST
from pai_runtime.task.secret_forms import is_too_short


def short_secrets(secrets: Mapping[str, str]) -> Iterator[str]:
    """A line for each secret that cannot be masked."""
    for name in sorted(name for name, value in secrets.items() if value and is_too_short(value)):
        yield f"the secret '{name}' is shorter than {SHORTEST} bytes and cannot be masked in logs"
