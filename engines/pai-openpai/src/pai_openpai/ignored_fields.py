"""Fields of a valid job that OpenPAI ignores, or takes for something else, whatever runtime its pods have."""

from collections.abc import Iterator
from typing import Final

from pai_document.problems import Problem, Severity
from pai_document.value import Value
from pai_runtime.job.reading import mapping, string

_CODE: Final = "no-effect-on-openpai"
_PRIORITIES: Final = ("prod", "test", "oppo")
_IN_EXTRAS: Final = {
    "firstPorts": "OpenPAI chooses the ports of each task; use the variables that tell them",
    "environment": "OpenPAI passes no variables of whoever submits; use parameters, or secrets",
}


def ignored_fields(root: Value) -> Iterator[Problem]:
    """Report the fields in the document of a job that have no effect, or another one, on OpenPAI."""
    extras = mapping(root, "extras")
    for name, message in _IN_EXTRAS.items():
        value = extras.get(name) if extras else None
        if value and value.data:
            yield _warning(value, f"has no effect there: {message}")
    retry_on = string(extras, "retryOn")
    if retry_on and retry_on.text == "always":
        yield _warning(retry_on, "has no effect there: OpenPAI decides by its own list of exit codes")
    retries = root.get("jobRetryCount")
    if retries and retries.data == 0:
        message = "OpenPAI retries failures that it calls transient, such as a lost node, in any case"
        yield _warning(retries, message, severity="note")
    roles = mapping(root, "taskRoles")
    for role in roles.values() if roles else ():
        failed = role.get("completion", "minFailedInstances")
        if failed and failed.data == 0:
            message = "means 1, as without it; write -1 if no number of failed tasks is to fail the job"
            yield _warning(failed, message)
    yield from _of_hived(mapping(extras, "hivedScheduler"), roles)


def _of_hived(hived: Value | None, roles: Value | None) -> Iterator[Problem]:
    """Report what is refused where HiveDScheduler is on, and unread elsewhere."""
    priority = string(hived, "jobPriorityClass")
    if priority and priority.text not in _PRIORITIES:
        yield _refused(priority, f"expected one of {', '.join(_PRIORITIES)}, found '{priority.text}'")
    described = mapping(hived, "taskRoles")
    for each in described.values() if described else ():
        if roles and each.key not in roles.node.children:
            yield _refused(each, f"no task role is named '{each.key}'")
        elif string(each, "skuType") and string(each, "pinnedCellId"):
            yield _refused(each, "has both skuType and pinnedCellId; expected one of them")


def _refused(value: Value, message: str) -> Problem:
    text = f"OpenPAI refuses the job where HiveDScheduler is on: {message}"
    return value.problem("refused-by-hived", text, severity="warning")


def _warning(value: Value, message: str, *, severity: Severity = "warning") -> Problem:
    return value.problem(_CODE, message, severity=severity, at_key=True)
