"""Explanations of a cluster's refusals for people: what was refused, and what to do."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from http.client import responses
from typing import Any, Final

from pai_network.answer import Answer
from pai_network.fields import mappings, string
from pai_openpai.client.profile import OpenpaiProfile
from pai_runtime.engine.documents import split_url
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.messages import RequestError, printable, server_text

MOST_SAID: Final = 600
NO_API: Final = "NoApiError"
"""The code of the refusal of a request that the server does not know."""

_MOST_FAULTS: Final = 5
_MOST_OBJECTS: Final = 1000
_ASIDE: Final = ("oneOf", "$merge")
"""Keywords of the server's schema whose errors only repeat others."""


def refusal(profile: OpenpaiProfile, what: str, answer: Answer) -> RequestError:
    """Return the error for an answer with a status other than success; `what` was to be done."""
    document = _document(answer.body)
    code, said = string(document, "code"), server_text(string(document, "message"), 16 * MOST_SAID)
    return RequestError(
        f"{profile.name}: {_explained(profile, what, answer, code, said)}",
        status=answer.status,
        reason=code if code.isidentifier() else "",
        may_pass=answer.may_pass,
        pause=answer.pause if answer.may_pass else 0,
    )


def unreachable(profile: OpenpaiProfile, why: str, *, sent: bool, may_pass: bool) -> RequestError:
    """Return the error for a request without an answer."""
    hint = ""
    if "certificate" in why:
        hint = "; name the certificates of its authority as caFile in the profile"
    return RequestError(
        f"{profile.name}: {profile.url} cannot be reached: {why}{hint}", sent=sent, may_pass=may_pass
    )


def not_openpai(profile: OpenpaiProfile) -> RequestError:
    """Return the error for an answer that is none of OpenPAI's."""
    return RequestError(
        f"{profile.name}: {profile.url} does not answer as OpenPAI does;"
        " check the url in the profile, and the proxy"
    )


def _explained(profile: OpenpaiProfile, what: str, answer: Answer, code: str, said: str) -> str:
    status = answer.status
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        pause = f" in {answer.pause:.0f} s" if answer.pause else " later"
        return f"cannot {what}: the cluster has had too many requests from this address; try again{pause}"
    if location := answer.headers["Location"]:
        target = split_url(str(location))
        where = f" to {target.scheme}://{target.netloc.rpartition('@')[2]}" if target else ""
        return f"{profile.url} redirects{where}, which is not followed; write that as url in the profile"
    if code == NO_API:
        return f"cannot {what}: the cluster has no such request; OpenPAI 1.4 or newer is needed"
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return f"cannot {what}: the cluster takes at most 102400 bytes of a job"
    shown = "; ".join(_faults(said)) or printable(said[:MOST_SAID])
    phrase = f"the cluster answers {status} {responses.get(status, '')}".strip()
    return f"cannot {what}: {shown or phrase}"


def _faults(said: str) -> Iterator[str]:
    """Yield the errors of the server's schema, which are JSON in its message."""
    try:
        found: Any = loads_untrusted(said.encode(), _MOST_OBJECTS)
    except ValueError:
        return
    told = [each for each in mappings(found) if string(each, "keyword") not in _ASIDE]
    for each in told[:_MOST_FAULTS]:
        where = string(each, "dataPath").removeprefix(".")
        params = each.get("params")
        more = f" ({json.dumps(params)})" if isinstance(params, dict) and params else ""
        yield printable(f"{where or 'the job'} {string(each, 'message')}{more}"[:MOST_SAID])


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = loads_untrusted(body, _MOST_OBJECTS)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
