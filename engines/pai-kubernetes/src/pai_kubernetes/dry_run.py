"""The cluster's own check of a run's objects and pods, by a dry run of each: nothing is created.

That of a JobSet, a custom resource, passes what only its pods are refused for. So the first pod of each role
is tried too, as its controllers will make it. A Job would tell less than its pod: quotas, limit ranges,
priorities, the Pod Security that a namespace enforces, and most admission policies are about pods alone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from pai_kubernetes.api import paths
from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.manifests.jobset import first_pod
from pai_kubernetes.manifests.objects import RenderedRun
from pai_kubernetes.manifests.origins import POD_TEMPLATE
from pai_runtime.engine import Problem, Problems

Object = Mapping[str, Any]

_MOST_PODS: Final = 16
"""Maximum number of pods that are checked; a request takes milliseconds, or more with webhooks."""
_NO_SECRET: Final = "e30="  # noqa: S105 - {}, which is valid where a kind of Secret wants JSON
_FIELD: Final = re.compile(r"\b(?:spec|metadata)(?:\.[A-Za-z]+|\[\d+\])+")
"""A field in the message of a webhook, which gives no causes."""
_OF_PODS: Final = re.compile(r"spec\.(?:initContainers|containers|volumes)\b")
"""A field of pods in the message of a policy about a JobSet."""
_OUR_WORDS: Final = re.compile(r"^.*\(the server says: (.*)\)$", re.DOTALL)
_NO_RIGHT: Final = re.compile(r'User ".*" cannot [a-z]+ resource "')
"""The message of an authorizer; admission forbids by the same status with other messages."""
_NO_DRY_RUN: Final = "does not support dry run"
"""The message about a webhook with side effects, which a dry run must not have."""


def dry_run(api: Api, rendered: RenderedRun, problems: Problems) -> bool:
    """Let the API server check objects and pods; return whether more can be asked. Raises `ApiError`."""
    for document in (*rendered.objects, *map(_without_values, rendered.secrets)):
        path = paths.OF_KIND[document["kind"]](api.namespace)
        error = _refusal(api, path, document, problems)
        if error and error.status == HTTPStatus.NOT_FOUND:  # no namespace, or no JobSet: all else fails too
            problems.add(*_faults(error, document["kind"], "", rendered))
            return False
        told = _try_pods(api, rendered, problems) if document["kind"] == "JobSet" else set()
        # What its pods are refused for too is told there, with its task role.
        if error and _words(error) not in told:
            problems.add(*_faults(error, document["kind"], "", rendered))
    return True


def not_checked(api: Api, what: str, error: ApiError) -> Problem:
    """Return the note that something could not be asked, which does not stop the job."""
    return Problem("not-checked", f"{api.label}: not checked: {what}: {error}", severity="note")


def _try_pods(api: Api, rendered: RenderedRun, problems: Problems) -> set[str]:
    """Let the server check the first pod of each role; return its messages about them."""
    told: set[str] = set()
    jobset = rendered.objects[0]
    roles = jobset["spec"]["replicatedJobs"]
    for number in range(min(len(roles), _MOST_PODS)):
        error = _refusal(api, paths.pods(api.namespace), first_pod(jobset, number), problems)
        if error is None:
            continue
        if error.status == HTTPStatus.FORBIDDEN and not _by_admission(error):
            problems.add(not_checked(api, "what the cluster would refuse in a pod", error))
            return told
        told.add(_words(error))
        problems.add(*_faults(error, "Pod", POD_TEMPLATE.format(number), rendered))
    if len(roles) > _MOST_PODS:
        message = f"{api.label}: the pods of the first {_MOST_PODS} task roles were checked, of {len(roles)}"
        problems.add(Problem("not-checked", message, severity="note"))
    return told


def _without_values(secret: Object) -> Object:
    """Return a Secret for a dry run, without its values."""
    return {**secret, "data": dict.fromkeys(secret.get("data", ()), _NO_SECRET), "stringData": {}}


def _refusal(api: Api, path: str, document: Object, problems: Problems) -> ApiError | None:
    """Return why an object would not be created, None if it would. Raises `ApiError` if that is unknown."""
    try:
        api.create(path, document, dry_run=True)
    except ApiError as error:
        if error.reason == "AlreadyExists":
            return None
        if error.status == HTTPStatus.BAD_REQUEST and _NO_DRY_RUN in str(error):
            problems.add(not_checked(api, f"the {document['kind']}", error))
            return None
        if not error.status or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise
        return error
    return None


def _faults(error: ApiError, kind: str, base: str, rendered: RenderedRun) -> Iterator[Problem]:
    """Yield the faults of an object, each at the field of the job that it comes from, if it does.

    `base` is the path of a pod in the JobSet.
    """
    named = [cause for cause in error.causes if cause.field]
    for cause in named:
        yield _fault(kind, base, cause.field, cause.message, rendered)
    if named:
        return
    said = _words(error)
    found = _FIELD.search(said)
    problem = _fault(kind, base, found[0] if found else "", said, rendered)
    # The controller of the Job tries again until other pods have ended.
    waits = kind == "Pod" and "exceeded quota:" in said
    yield replace(problem, code="exceeded-quota", severity="warning") if waits else problem


def _words(error: ApiError) -> str:
    """Return the cluster's message, without our advice where that would be wrong.

    An admission policy states its message as a cause without a field.
    """
    by_policy = next((cause.message for cause in error.causes if not cause.field and cause.message), "")
    own = by_policy or _by_admission(error)
    return f"the cluster refuses it: {own}" if own else str(error)


def _by_admission(error: ApiError) -> str:
    """Return the server's message if admission forbids the object; empty if a right is missing."""
    own = _OUR_WORDS.match(str(error)) if error.status == HTTPStatus.FORBIDDEN else None
    return own[1] if own and not _NO_RIGHT.search(own[1]) else ""


def _fault(kind: str, base: str, field: str, message: str, rendered: RenderedRun) -> Problem:
    path = ".".join(filter(None, (base, field))) if kind in ("JobSet", "Pod") else ""
    is_of_pods = kind == "JobSet" and _OF_PODS.match(field)
    where = (rendered.origins.of_pods if is_of_pods else rendered.origins.of)(path) if path else None
    what = f"{kind} {field}".strip()
    if where is None:
        return Problem("refused-by-cluster", message, field=what)
    return where.problem("refused-by-cluster", f"{message} ({what})")
