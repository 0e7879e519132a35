"""The user's command in ``USER_CMD``, as the platform gives it to the init container.

It is the script of the role, with deployment and parameters already in it; secrets are still references, and
so is what refers to nothing.
"""

from pai_document.problems import InvalidInput, Position, Problem, Problems
from pai_document.value import Node, Source, Value
from pai_runtime.job.model import Job
from pai_runtime.job.references import References, Renderer
from pai_task.plan import Command

VARIABLE = "USER_CMD"


def user_command(script: str, job: Job, role: str, problems: Problems) -> Command:
    """Return the command of a role, with a placeholder for each secret. Raises `InvalidInput`."""
    try:
        script.encode()
    except UnicodeEncodeError:
        message = "expected text in UTF-8, found other bytes"
        raise InvalidInput([Problem("not-utf-8", message, Position(VARIABLE))]) from None
    value = Value(Node(Source(VARIABLE, script), 0, len(script), script, script))
    rendered = Renderer(References(job, problems), job.roles[role], rendered_before=True).text(value)
    problems.check()
    return Command(rendered.strip() + "\n", VARIABLE, job.nounset)
