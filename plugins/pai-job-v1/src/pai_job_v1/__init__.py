"""Jobs of version 1 of the protocol, which are JSON, and their conversion to version 2."""

from pai_job_v1.conversion import converted
from pai_runtime.plugin import hookimpl
from pai_runtime.plugin.job_format import Problem, Problems, Value


@hookimpl
def pai_read_job(document: Value, problems: Problems) -> Value:
    """Note that it is one, and convert it."""
    message = "a job of version 1, read as one of version 2; pai-runtime convert shows it as such"
    problems.add(Problem("version-1", message, document.position, severity="note"))
    return converted(document, problems).root
