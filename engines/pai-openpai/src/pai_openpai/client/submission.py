"""The submission of a job: once, whatever becomes of the request, and looked at afterwards.

Names are used up for ever, of two equal ones at once one is lost silently, and a reply may be lost after the
job was stored. So each submission has a number of its own in the job, by which it is known again.
"""

import secrets
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from pai_network.deadline import Deadline
from pai_network.fields import mapping, string
from pai_openpai.client.api import Api, job_path
from pai_openpai.client.names import new_name
from pai_openpai.client.reader import stop_job
from pai_openpai.submitted_code import PARAMETERS
from pai_runtime.engine import CannotRun, ClusterError, MayBeLeft
from pai_runtime.engine.messages import RequestError

SUBMISSION: Final = "submission"
"""The key in ``extras`` of the number of a submission."""

LATE: Final = 10.0
"""Seconds for which a request that failed may still be carried out."""

PAUSE: Final = 1.0
_UNKNOWN: Final = (0, HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
"""Statuses after which a request may still be carried out."""
_TRIES: Final = 5
_LONGEST_PAUSE: Final = 60.0
_SHORTEST_SECRET: Final = 4
"""Characters from which on the value of a secret is looked for in what everybody can read."""

Written = Callable[[str, str], str]
"""A function that returns the text of a job under a name, with the number of its submission."""


def submit(api: Api, job: str, written: Written, hidden: Collection[str]) -> str:
    """Submit a job under a name that is not used, and return the name.

    `hidden` are the values of its secrets. Raises `CannotRun` if there is no job of it, else `MayBeLeft`.
    """
    number, name = secrets.token_hex(16), ""
    try:
        user = api.user
        for _ in range(_TRIES):
            name = new_name(job)
            body = written(name, number)
            try:
                config = _submitted(api, user, name, body, number)
                if config is not None:
                    _check_secrets(api, user, name, config, hidden)
                    return name
            except KeyboardInterrupt:
                raise _interrupted(api, user, name, number) from None
    except RequestError as error:
        raise CannotRun(str(error)) from None
    raise CannotRun(
        f"{api.profile.name}: {_TRIES} random names are all taken, the last one {name}; try again"
    )


def _submitted(api: Api, user: str, name: str, body: str, number: str) -> Mapping[str, Any] | None:
    """Submit a job, and return what everybody can read of it; None if the name is that of another job.

    Raises `RequestError` if there is none of it, else `MayBeLeft`.
    """
    failure: RequestError | None = None
    try:
        _post(api, body)
    except RequestError as error:
        if not error.sent or (_is_refused(error) and not _is_taken(error)):
            raise
        failure = error
    found = _found(api, user, name, failure)
    if found is not None:
        shown = _number(found)
        if shown == number:
            return found
        if shown or _is_taken(failure):
            return None
        unclear = f"{api.profile.name}: the cluster does not show of which submission {name} is"
        raise MayBeLeft(f"{unclear}; {_left(api, name)}", interrupted=False)
    if failure is not None and failure.status not in _UNKNOWN:
        raise failure
    why = failure or f"{api.profile.name}: the cluster has taken the job, and does not have it"
    raise MayBeLeft(f"{why}; {_left(api, name)}", interrupted=False)


def _post(api: Api, body: str) -> None:
    """Submit a job once; again after a refusal because of too many requests, as it asks."""
    try:
        api.submit(body)
    except RequestError as error:
        if error.status != HTTPStatus.TOO_MANY_REQUESTS or not 0 < error.pause <= _LONGEST_PAUSE:
            raise
        time.sleep(error.pause)
        api.submit(body)


def _is_refused(error: RequestError) -> bool:
    """Return whether a request has had, and will have, no effect."""
    return error.status in range(300, 500) and error.status != HTTPStatus.REQUEST_TIMEOUT


def _is_taken(error: RequestError | None) -> bool:
    """Return whether a job was refused because there is one of its name."""
    return error is not None and error.status == HTTPStatus.CONFLICT


def _found(api: Api, user: str, name: str, why: RequestError | None) -> Mapping[str, Any] | None:
    """Return what everybody can read of a job; None if there is no such job, after a while if one may come.

    Raises `MayBeLeft` if nobody knows.
    """
    deadline = Deadline(0 if _is_taken(why) else LATE)
    try:
        while (found := _config(api, user, name)) is None:
            if not deadline.wait(PAUSE):
                return None
    except RequestError as error:
        raise MayBeLeft(f"{why or error}; {_left(api, name)}", interrupted=False) from None
    return found


def _config(api: Api, user: str, name: str) -> Mapping[str, Any] | None:
    try:
        found = api.get(job_path(user, name, "config"), what=f"read the configuration of {name}")
    except RequestError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    return mapping(found)


def _number(config: Mapping[str, Any]) -> str:
    """Return the number of the submission of a job."""
    return string(mapping(config, "extras"), SUBMISSION)


def _interrupted(api: Api, user: str, name: str, number: str) -> KeyboardInterrupt | MayBeLeft:
    """Return what to raise after Ctrl-C: the job is looked for, and stopped if it was submitted."""
    try:
        found = _found(api, user, name, None)
        shown = _number(found) if found is not None else ""
        if shown == number:
            stop_job(api, user, name)
            kept = f"interrupted; {name} was submitted and is stopped; OpenPAI keeps it in its list"
            return MayBeLeft(kept, interrupted=True)
        if shown:
            return KeyboardInterrupt()
    except (ClusterError, MayBeLeft, KeyboardInterrupt):
        pass
    return MayBeLeft(f"interrupted; {_left(api, name)}", interrupted=True)


def _left(api: Api, name: str) -> str:
    stop = shlex.join(["pai-runtime", "stop", name, "--on", api.profile.name])
    return f"{name} may have been submitted; to stop it: {stop}"


def _check_secrets(
    api: Api, user: str, name: str, config: Mapping[str, Any], hidden: Collection[str]
) -> None:
    """Stop a job of which everybody can read a secret. Raises `MayBeLeft`."""
    shown = "\0".join(_texts({**config, PARAMETERS: None}))  # an archive has short ones by chance
    if not any(len(value) >= _SHORTEST_SECRET and value in shown for value in hidden):
        return
    what = f"{api.profile.name}: the cluster shows a secret of {name} to all its users: replace that secret"
    try:
        stop_job(api, user, name)
    except ClusterError as error:
        raise MayBeLeft(f"{what}; the job is not stopped: {error}", interrupted=False) from None
    raise MayBeLeft(f"{what}; the job is stopped", interrupted=False)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)
