"""Creating the objects of a run, all or none."""

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import FrameType
from typing import Any, Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError
from pai_kubernetes.api.fields import name_of, string
from pai_kubernetes.api.paths import OF_KIND, jobsets
from pai_kubernetes.run.signals import stop_signals
from pai_runtime.engines.cluster import Manifests
from pai_runtime.runs.cannot_run import CannotRun

SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and what looks alike: a suffix is no word, and can be read out."""

_SUFFIX_LENGTH = 5
_TRIES = 5

Render = Callable[[str], Manifests]
"""The objects of a run by the suffix of its name."""


def random_suffix() -> str:
    """A suffix that hardly another run has."""
    return "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))


def submit(api: Api, render: Render) -> str:
    """Create the objects of a run, with a name that none has yet; the name.

    First the JobSet, so that it owns all others, and they are gone with it: its pods wait for their volumes
    meanwhile. Raises `CannotRun`: then nothing is left, or the message says what.
    """
    taken = ""
    for _ in range(_TRIES):
        rendered = render(random_suffix())
        jobset = _jobset(rendered)
        taken = name_of(jobset)
        try:
            with stop_signals(_interrupt):
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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Any of the signals ends it in an orderly way, so that nothing is left that is half made."""
    raise KeyboardInterrupt


def _create_all(api: Api, rendered: Manifests, jobset: Mapping[str, Any]) -> None:
    name, namespace = name_of(jobset), api.namespace
    created: Mapping[str, Any] = {}
    try:
        created = api.create(jobsets(namespace), jobset)
        for each in (*rendered.secrets, *rendered.objects):
            if each is not jobset:
                api.create(OF_KIND[each["kind"]](namespace), _owned(each, created))
    except BaseException as error:
        refused = isinstance(error, ApiError) and 400 <= error.status < 500  # noqa: PLR2004 - HTTP's classes
        if created or not refused:
            _undo(api, name, error)
        raise


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


def _undo(api: Api, name: str, error: BaseException) -> None:
    """Delete what was created, which the JobSet owns; also one of which nobody knows whether it was."""
    try:
        api.delete(jobsets(api.namespace, name), options={"propagationPolicy": "Background"})
    except ApiError as left:
        if left.status != HTTPStatus.NOT_FOUND and isinstance(error, ApiError):
            raise CannotRun(f"{error}; the JobSet {name} may be left on the cluster: {left}") from None
