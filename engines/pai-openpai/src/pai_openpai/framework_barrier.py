"""The step of the Framework barrier: a task starts only when all of its job have a pod, and so an address.

It also brings the Framework object, from which each task learns where the others are.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from pai_document.printable import printable
from pai_network.deadline import Deadline
from pai_openpai.api_server import SERVICE_ACCOUNT, ApiError, get_object
from pai_openpai.framework import read_framework
from pai_openpai.framework_job import FRAMEWORK_FILE, FrameworkJob, framework_uid, without_framework
from pai_pod.errors import BarrierFailed, InitFailed
from pai_pod.steps import Pod
from pai_runtime.plugin.backoff import backoff
from pai_task.exit_codes import INIT_GANG_TIMEOUT, INIT_REFUSED, INIT_UNREACHABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pai_openpai.framework import Framework

SECONDS = 600.0
"""Timeout of the barrier in seconds, whatever fails."""
INTERVAL = 8.0, 12.0
"""Bounds in seconds of the random interval between two requests, so that pods do not ask all at once."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Bounds in seconds of the pause after API errors."""
REQUEST_SECONDS = 30.0
"""Timeout of one request in seconds."""

_MOST_UNREADABLE = 3
"""Number of responses without a valid Framework after which the failure is permanent."""
_HINTS = {
    INIT_UNREACHABLE: "",
    INIT_GANG_TIMEOUT: ". The cluster may have no room for all tasks of the job at once",
}
_MOST_NAMES = 5
_RESOURCE = "frameworks.frameworkcontroller.microsoft.com"
_FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/{}/frameworks"


def _uniform(low: float, high: float) -> float:
    from random import uniform  # noqa: PLC0415 - most processes never wait

    return uniform(low, high)  # noqa: S311 - it has nothing to do with secrets


def wait_for_framework(
    environment: Mapping[str, str],
    missing: Callable[[bytes], Sequence[str]],
    say: Callable[[str], None],
    *,
    deadline: Deadline | None = None,
    draw: Callable[[float, float], float] = _uniform,
    service_account: Path = SERVICE_ACCOUNT,
) -> bytes:
    """Wait until all tasks have an address, and return the pod's Framework object as JSON.

    `missing` returns the names of the tasks in it without an address, and raises ValueError if it is not a
    Framework. The wait is for all tasks unless ``GANG_ALLOCATION`` is ``false``. `say` takes a line for the
    log. `draw` replaces `random.uniform`. A signal ends the wait at once if its handler raises an exception.
    Raises `BarrierFailed`.
    """
    look = _Look(environment, missing, service_account)
    deadline = deadline or Deadline(SECONDS)
    failures, last = 0, ""
    while True:
        try:
            document, waiting = look.once(min(REQUEST_SECONDS, deadline.left()))
        except ApiError as error:
            failures += 1
            code, text = INIT_UNREACHABLE, f"{error}{look.advice(error)}"
            if error.permanent:
                raise BarrierFailed(INIT_REFUSED, text) from None
            pause = error.pause + backoff(failures, FIRST_PAUSE, LONGEST_PAUSE, draw)
        else:
            if not waiting:
                return document
            failures = 0
            code, text = INIT_GANG_TIMEOUT, look.progress(waiting)
            pause = draw(*INTERVAL)
        if text != last:
            say(text)
            last = text
        if not deadline.wait(pause):
            raise BarrierFailed(code, f"gave up after {SECONDS:g} seconds: {text}{_HINTS[code]}")


class _Look:
    """A reader of the Framework, which remembers what it has seen."""

    def __init__(
        self, environment: Mapping[str, str], missing: Callable[[bytes], Sequence[str]], service_account: Path
    ) -> None:
        self._environment = environment
        self._missing = missing
        self._service_account = service_account
        self._name = environment.get("FC_FRAMEWORK_NAME", "")
        self._namespace = environment.get("FC_FRAMEWORK_NAMESPACE") or "default"
        self._found = False
        self._unreadable = 0

    def once(self, seconds: float) -> tuple[bytes, Sequence[str]]:
        """Return the object and the tasks to be waited for. Raises `ApiError`."""
        if not self._name.strip("."):
            raise ApiError(
                "FC_FRAMEWORK_NAME: expected the name of a Framework, as FrameworkController sets it"
            )
        path = f"{_FRAMEWORKS.format(quote(self._namespace, safe=''))}/{quote(self._name, safe='')}"
        document = get_object(self._environment, path, Deadline(seconds).left, self._service_account)
        try:
            waiting = self._missing(document)
        except ValueError as error:
            self._unreadable += 1
            permanent = self._unreadable >= _MOST_UNREADABLE
            raise ApiError(f"the Framework cannot be read: {error}", permanent=permanent) from None
        self._found, self._unreadable = True, 0
        gang = self._environment.get("GANG_ALLOCATION", "").lower() != "false"
        return document, waiting if gang else ()

    def advice(self, error: ApiError) -> str:
        """Return what to do about an error, as the end of its message."""
        account = f"the pod's service account (its token belongs in {self._service_account})"
        where = f"namespace {self._namespace}"
        if error.status == HTTPStatus.UNAUTHORIZED:
            return f". Its token was refused: {account} must exist, and the token must be from this cluster"
        if error.status == HTTPStatus.FORBIDDEN:
            return f". Bind {account} to a role that is allowed to get {_RESOURCE} in {where}"
        if error.status != HTTPStatus.NOT_FOUND:
            return ""
        if self._found:
            return ". It existed before: the job was stopped or deleted while this task waited for the others"
        return (
            f". Expected: the Framework {self._name} in {where}, on the cluster that runs FrameworkController"
        )

    def progress(self, waiting: Sequence[str]) -> str:
        """Describe which tasks have no address yet."""
        tasks = self._environment.get("PAI_TASKS_NUM", "")
        names = ", ".join(waiting[:_MOST_NAMES])
        more = f" and {len(waiting) - _MOST_NAMES} more" if len(waiting) > _MOST_NAMES else ""
        of = f" of {tasks}" if tasks.isdecimal() else ""
        return f"{len(waiting)}{of} tasks have no address yet: {printable(names)}{more}"


skipped = without_framework


def run(pod: Pod) -> FrameworkJob:
    """Get the Framework object, once all tasks have an address if they start together."""
    framework: Framework | None = None

    def missing(document: bytes) -> list[str]:
        nonlocal framework
        framework = read_framework(document, framework_uid(pod))
        return framework.missing()

    try:
        document = wait_for_framework(pod.environment, missing, pod.log.say)
    except BarrierFailed as error:
        raise InitFailed(error.code, str(error)) from None
    pod.init.write(FRAMEWORK_FILE, document.decode("utf-8", "replace"), sync=False)
    return FrameworkJob(framework or read_framework(document, framework_uid(pod)), pod)
