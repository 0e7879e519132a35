"""Messages before a job runs, wherever it runs."""

from collections.abc import Iterator, Mapping

from pai_runtime.document.problems import InvalidInput
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.task.masking import SHORTEST
from pai_runtime.task.secret_forms import is_too_short
from pai_runtime.terminal.output import report_problems, say


def short_secrets(secrets: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each secret that is too short to be masked."""
    for name in sorted(name for name, value in secrets.items() if value and is_too_short(value)):
        yield f"the secret '{name}' is shorter than {SHORTEST} bytes and cannot be masked in logs"


def refused(error: Exception, nothing: str) -> int:
    """Report why a job does not run, then the text `nothing` (was started); return the exit status."""
    if isinstance(error, InvalidInput):
        report_problems(error.problems)
        say(nothing)
    else:
        say(f"{error}; {nothing}")
    return CANNOT_RUN
