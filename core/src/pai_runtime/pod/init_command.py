"""Running an init plugin that is a command of the cluster's own."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pai_runtime.pod.init_log import InitLog
from pai_runtime.pod.stopping import Stopped, end

_PASS_ON_EVERY = 0.2
"""Seconds between two looks for what the command has printed."""


def run_command(command: str, folder: Path, environment: Mapping[str, str], log: InitLog) -> int:
    """Run a command line in a directory, which comes first on its PATH; its exit code, 128 + n for a signal.

    Raises OSError if there is no ``sh``, and `Stopped` after the command has ended, to which the signal is
    passed on.
    """
    path = os.pathsep.join(filter(None, [str(folder), environment.get("PATH", os.defpath)]))
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while True:
            try:
                code = process.wait(_PASS_ON_EVERY)
            except subprocess.TimeoutExpired:
                log.pass_on()
            else:
                return code if code >= 0 else 128 - code
    except Stopped as stopped:
        process.returncode = os.waitstatus_to_exitcode(end(process.pid, stopped.number, group=True))
        raise
    finally:
        _kill_group(process.pid)
        log.pass_on()


def _kill_group(leader: int) -> None:
    """End what the command has left running: the next one must not find it at work."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
