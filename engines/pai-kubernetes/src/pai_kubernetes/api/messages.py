"""Explanations of error answers for people: who was refused what, and what to do."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import responses
from typing import Any, Final

from pai_kubernetes.api.errors import ApiError, Cause
from pai_kubernetes.api.paths import JOBSET_GROUP, Target
from pai_network.answer import Answer
from pai_network.fields import json_object
from pai_runtime.engine.messages import printable, server_text

_MOST_SAID: Final = 1000
_MOST_CAUSES: Final = 200
_MOST_WARNINGS: Final = 20
_MOST_OF_HEADER: Final = 1 << 16
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)', re.DOTALL)
"""The format of a warning (RFC 7234, 5.5), whose text may be cut off."""
_MOST_OF_FIELD: Final = 300
_NO_WEBHOOK: Final = "failed calling webhook"


@dataclass(frozen=True)
class Asked:
    """A request as messages describe it.

    `label` names the cluster, `user` who asks, `origin` where that is configured, and `verb` is that of RBAC.
    """

    label: str
    server: str
    user: str
    origin: str
    verb: str
    target: Target


def refusal(asked: Asked, answer: Answer) -> ApiError:
    """Return the error for an answer with a status other than 2xx."""
    status = _status_document(answer.body)
    said = _text(status.get("message"), _MOST_SAID)
    error = ApiError(
        f"{asked.label}: {_explained(asked, answer, status, said)}",
        status=answer.status,
        reason=_text(status.get("reason"), _MOST_OF_FIELD),
        may_pass=answer.may_pass,
        pause=answer.pause if answer.may_pass else 0,
    )
    error.causes = tuple(_causes(status))
    return error


def event_error(asked: Asked, document: Any) -> ApiError:
    """Return the error for an event ``ERROR`` of a watch, whose `Status` has the code."""
    status = document if isinstance(document, dict) else {}
    code, said = status.get("code"), _text(status.get("message"), _MOST_SAID)
    number = code if isinstance(code, int) else 0
    return ApiError(
        f"{asked.label}: the watch of {asked.target.full_resource} ended: {said}",
        status=number,
        reason=_text(status.get("reason"), _MOST_OF_FIELD),
        may_pass=True,
    )


def unreachable(asked: Asked, why: str, *, may_pass: bool, sent: bool = True) -> ApiError:
    """Return the error for a request without an answer."""
    return ApiError(
        f"{asked.label}: the API server {asked.server} cannot be reached: {why}", sent=sent, may_pass=may_pass
    )


def not_json(asked: Asked, what: str) -> ApiError:
    """Return the error for an answer that is not a JSON object."""
    return ApiError(
        f"{asked.label}: {asked.server} does not answer as an API server: {what}; "
        f"check the server's URL in {asked.origin}, and the proxy",
    )


def too_many(asked: Asked, most: int) -> ApiError:
    """Return the error for a collection larger than the limit."""
    return ApiError(f"{asked.label}: more than {most} {asked.target.full_resource}")


def warnings_of(answer: Answer) -> Iterator[str]:
    """Yield the warnings in an answer's headers (``299 - "text"``), as of deprecations or policies."""
    for header in (answer.headers.get_all("Warning") or ())[:_MOST_WARNINGS]:
        if found := _WARNING.match(str(header)[:_MOST_OF_HEADER]):
            yield _text(re.sub(r"\\(.)", r"\1", found[1]), _MOST_SAID)


def is_without_webhook(answer: Answer) -> bool:
    """Return whether an object was not admitted for lack of a webhook, as while that one's pods restart."""
    return answer.status == HTTPStatus.INTERNAL_SERVER_ERROR and _NO_WEBHOOK in _text(
        _status_document(answer.body).get("message"), _MOST_SAID
    )


def _explained(asked: Asked, answer: Answer, status: dict[str, Any], said: str) -> str:
    target, code = asked.target, answer.status
    if code == HTTPStatus.UNAUTHORIZED:
        return (
            f"the API server {asked.server} does not accept the login of user '{asked.user}' "
            f"({asked.origin}); log in again"
        )
    if code == HTTPStatus.FORBIDDEN:
        where = f" in namespace {target.namespace}" if target.namespace else ""
        return (
            f"user '{asked.user}' cannot {asked.verb} {target.full_resource}{where}; "
            f"ask for the role in deploy/kubernetes/rbac.yaml{_says(said)}"
        )
    if code == HTTPStatus.NOT_FOUND:
        return _not_found(asked, status, said)
    if answer.headers["Location"]:
        return f"{asked.server} redirects, which is not followed; check the server's URL in {asked.origin}"
    phrase = f"{code} {responses.get(code, '')}".strip()
    return f"cannot {asked.verb} {target}: {said or f'the API server answers {phrase}'}"


def _not_found(asked: Asked, status: dict[str, Any], said: str) -> str:
    target, details = asked.target, status.get("details")
    missing = details.get("name") if isinstance(details, dict) else None
    if missing:
        if details and details.get("kind") == "namespaces":
            return f"there is no namespace {target.namespace}; check the profile, and {asked.origin}"
        return f"there is no {target}{'' if missing == target.name else _says(said)}"
    if target.group == JOBSET_GROUP:
        return "JobSet is not installed on this cluster; see docs/kubernetes.md"
    what = f"the API {target.group}/{target.version}" if target.group else f"what is at {target}"
    return f"the cluster does not have {what}{_says(said)}"


def _says(said: str) -> str:
    return f" (the server says: {said})" if said else ""


def _status_document(body: bytes) -> dict[str, Any]:
    """Return the ``Status`` in a body; empty if it is not one."""
    document = json_object(body) or {}
    return document if document.get("kind") == "Status" else {}


def _causes(status: dict[str, Any]) -> list[Cause]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return [
        Cause(_text(each.get("field"), _MOST_OF_FIELD), _text(each.get("message"), _MOST_SAID))
        for each in (causes if isinstance(causes, list) else [])[:_MOST_CAUSES]
        if isinstance(each, dict)
    ]


def _text(value: Any, most: int) -> str:
    """Return a text of the server, bounded and printable."""
    return printable(server_text(value, most)) if isinstance(value, str) else ""
