"""Creation of the objects of a run, all or none."""

import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import name_of
from pai_kubernetes.api.paths import OF_KIND, jobsets
from pai_network.deadline import Deadline
from pai_network.fields import string
from pai_runtime.engine import CannotRun, MayBeLeft

SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of suffixes, without vowels and similar ones: a suffix is no word, and easy to read out."""

_SUFFIX_LENGTH = 5
_TRIES = 5
_LATE: Final = 10.0
"""Default timeout in seconds of an admission webhook, for which it may delay a request."""
_PAUSE: Final = 0.5
_NO_ANSWER: Final = (0, HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
"""Statuses after which a request may still be carried out."""


@dataclass(frozen=True)
class Manifests:
    """The objects of a run, with the JobSet among the `objects`; only `secrets` hold values of secrets."""

    objects: Sequence[Mapping[str, Any]]
    secrets: Sequence[Mapping[str, Any]]


Render = Callable[[str], Manifests]
"""A function that returns the objects of a run for the suffix of its name."""


def random_suffix() -> str:
    """Return a random suffix, which hardly any other run has."""
    return "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))


def submit(api: Api, render: Render) -> str:
    """Create the objects of a run, with an unused name, and return the name.

    The JobSet is created first, so that it owns all others and they are deleted with it; its pods wait for
    their volumes meanwhile. Raises `CannotRun` if nothing is left, else `MayBeLeft`.
    """
    taken = ""
    for _ in range(_TRIES):
        rendered = render(random_suffix())
        jobset = _jobset(rendered)
        taken = name_of(jobset)
        try:
            _create_all(api, rendered, jobset)
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT and error.reason == "AlreadyExists":
                continue
            raise CannotRun(str(error)) from None
        return taken
    raise CannotRun(
        f"{api.label}: {_TRIES} random names of runs are all taken, the last one {taken}; try again"
    )


def _jobset(rendered: Manifests) -> Mapping[str, Any]:
    return next(each for each in rendered.objects if each["kind"] == "JobSet")


def _create_all(api: Api, rendered: Manifests, jobset: Mapping[str, Any]) -> None:
    name, namespace = name_of(jobset), api.namespace
    created: Mapping[str, Any] = {}
    try:
        created = api.create(jobsets(namespace), jobset)
        for each in (*rendered.secrets, *rendered.objects):
            if each is not jobset:
                api.create(OF_KIND[each["kind"]](namespace), _owned(each, created))
    except BaseException as error:
        if created or not _is_refused(error):
            may_come = not created and (not isinstance(error, ApiError) or error.status in _NO_ANSWER)
            why = _undo(api, name, may_come=may_come)
            if why and isinstance(error, (ApiError, KeyboardInterrupt)):
                raise _may_be_left(api, name, error, why) from None
        raise


def _is_refused(error: BaseException) -> bool:
    """Return whether a request has had, and will have, no effect."""
    refused = range(400, 500)  # HTTP's class of the requests that are not carried out
    return isinstance(error, ApiError) and (not error.sent or error.status in refused)


def _owned(document: Mapping[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    reference = {
        "apiVersion": owner.get("apiVersion"),
        "kind": "JobSet",
        "name": name_of(owner),
        "uid": string(owner, "metadata", "uid"),
        "controller": False,
        "blockOwnerDeletion": False,
    }
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [reference]}}


def _undo(api: Api, name: str, *, may_come: bool) -> str:
    """Delete what was created, which the JobSet owns; return why it may be left, empty if it is not.

    `may_come` means that a request without a known result may still create the JobSet.
    """
    deadline = Deadline(_LATE if may_come else 0)
    try:
        while not _found_and_deleted(api, name):
            if not deadline.wait(_PAUSE):
                return "the cluster may still carry out the request" if may_come else ""
    except ApiError as error:
        return str(error)
    except KeyboardInterrupt:
        return "interrupted while it was deleted"
    return ""


def _found_and_deleted(api: Api, name: str) -> bool:
    try:
        api.delete(jobsets(api.namespace, name), options={"propagationPolicy": "Background"})
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def _may_be_left(api: Api, name: str, error: ApiError | KeyboardInterrupt, why: str) -> MayBeLeft:
    stop, remove = (shlex.join(["pai-runtime", word, name, "--on", api.label]) for word in ("stop", "rm"))
    interrupted = isinstance(error, KeyboardInterrupt)
    return MayBeLeft(
        f"{'interrupted' if interrupted else error}; the JobSet {name} may be left on the cluster: {why};"
        f" to stop it: {stop}; to remove it then: {remove}",
        interrupted=interrupted,
    )
