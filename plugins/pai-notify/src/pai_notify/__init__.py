"""The plugin ``notify``: tells by a webhook or e-mail why a run failed; if asked to, success and start too.

A message never holds anything up: it is given up after `_SECONDS`, and a failure to send it is a line, never
a failure of the run.
"""

from __future__ import annotations

import sys
import threading
import time

from pai_runtime.plugin import Contribution, UserError, has_secret, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pai_runtime.plugin import Task, Use

_SECONDS = 10.0
"""Time in seconds for all messages about one event together."""


@hookimpl
def pai_prerequisite(use: Use) -> Contribution:
    """Warn of secrets that are none, and refuse what would send a password in the clear."""
    webhook, email = use.parameters.get("webhook", {}), use.parameters.get("email", {})
    url, password = webhook.get("url"), email.get("password")
    if url is not None and not has_secret(url) and not url.startswith(("http://", "https://")):
        raise UserError("webhook.url: expected a URL of http or https")
    if password is not None and email.get("security") == "none":
        raise UserError("email.password: it would be sent unencrypted; expected security: starttls or tls")
    given = {"webhook.url": url, "email.password": password}
    return Contribution(
        warnings=[
            f"{name} is not a secret of the job: whoever can read the job or its plan can use it;"
            " expected a reference such as <% $secrets.name %>"
            for name, value in given.items()
            if value is not None and not has_secret(value)
        ]
    )


@hookimpl
def pai_task_starts(use: Use, task: Task) -> None:
    """Tell that the run has started; one task does."""
    if _is_first(use, task):
        _tell("start", use, task, {})


@hookimpl
def pai_run_ends(use: Use, task: Task, record: Mapping[str, Any], has_succeeded: bool) -> None:  # noqa: FBT001 - as specified
    """Tell that the run has succeeded, or why the task failed that ended it."""
    _tell("success" if has_succeeded else "failure", use, task, record)


def _is_first(use: Use, task: Task) -> bool:
    return (task.role, task.index) == (use.roles[0], 0)


def _tell(event: str, use: Use, task: Task, record: Mapping[str, Any]) -> None:
    """Send all messages about an event beside each other, and say what came of each."""
    if event not in use.parameters.get("events", ["failure"]):
        return
    from pai_notify.message import Message  # noqa: PLC0415 - most events are not told

    message = Message(event, task, record)
    until = time.monotonic() + _SECONDS
    said: dict[str, str] = {}
    threads: dict[str, threading.Thread] = {}
    for name in ("webhook", "email"):
        if given := use.parameters.get(name):
            send = _sender(name)
            threads[name] = threading.Thread(
                target=_send, args=(send, given, message, name, said), daemon=True
            )
            threads[name].start()
    for name, thread in threads.items():
        thread.join(max(until - time.monotonic(), 0))
        outcome = said.get(name, f"given up after {_SECONDS:g} s; the {event} is not told")
        sys.stdout.write(f"{name}: {outcome}\n")


def _sender(name: str) -> Callable[[Mapping[str, Any], Any, float], None]:
    if name == "webhook":
        from pai_notify.webhook import post  # noqa: PLC0415 - only what is used

        return post
    from pai_notify.mail import send  # noqa: PLC0415 - as above

    return send


def _send(
    send: Callable[[Mapping[str, Any], Any, float], None],
    given: Mapping[str, Any],
    message: Any,
    name: str,
    said: dict[str, str],
) -> None:
    from pai_notify.faults import fault  # noqa: PLC0415 - as above

    try:
        send(given, message, _SECONDS)
        said[name] = f"told the {message.event}"
    except Exception as error:  # noqa: BLE001 - whatever goes wrong must not fail the task
        said[name] = f"the {message.event} is not told: {fault(error)}"
