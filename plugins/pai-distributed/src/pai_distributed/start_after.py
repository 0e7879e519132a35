"""The plugin ``com.microsoft.pai.runtimeplugin.start_after``: a task waits until a port of others answers."""

import os
import socket
import sys
import time

from pai_distributed.addresses import Address, host_of, port_of
from pai_runtime.plugin import Contribution, Task, Use, UserError, backoff, hookimpl, task_variables

MINUTES = 10.0
"""The default timeout."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two attempts."""
CONNECT = 5.0
"""Timeout in seconds of one attempt; a host that is not there yet may answer nothing at all."""


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution | None:
    """Check the parameters."""
    role = use.parameters["role"]
    if role not in task.instances:
        known = ", ".join(task.instances)
        raise UserError(f"role: expected a task role of the job, found {role}; known: {known}")
    return None


@hookimpl
def pai_task_starts(use: Use, task: Task) -> None:
    """Wait until the port of every task of the role answers. Raises `UserError` at the timeout."""
    role = use.parameters["role"]
    if role == task.role:
        return
    seconds = 60 * use.parameters.get("timeout_minutes", MINUTES)
    until = time.monotonic() + seconds
    told = task_variables(os.environ)
    for index in range(task.instances[role]):
        host, port = host_of(told, role, index), use.parameters.get("port", "http")
        number = port_of(told, role, index, port) if isinstance(port, str) else int(port)
        if number is None:
            raise UserError(f"{role}/{index} has no port '{port}'")
        address = Address(host, number)
        _say(f"[INFO] start_after: waiting up to {seconds:g} seconds for {role}/{index} at {address}")
        if why := _wait(address, until):
            message = f"{role}/{index} did not answer at {address} within {seconds:g} seconds: {why}"
            raise UserError(f"{message}; its own log says more")


def _wait(address: Address, until: float) -> str | None:
    """Wait until a connection is accepted; return why not if `until`, of the monotonic clock, has come."""
    attempts = 0
    while True:
        attempts += 1
        left = until - time.monotonic()
        try:
            socket.create_connection(address, max(0.1, min(CONNECT, left))).close()
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return None
        if (left := until - time.monotonic()) <= 0:
            return why
        time.sleep(min(backoff(attempts, FIRST_PAUSE, LONGEST_PAUSE), left))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
