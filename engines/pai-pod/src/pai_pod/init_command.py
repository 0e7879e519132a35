"""Execution of an init plugin that is a command of the cluster's own."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from pai_pod.init_log import InitLog
from pai_pod.stopping import Stopped, end, has_ended
from pai_task.exit_codes import killed_by
from pai_task.signals import STOP_SIGNALS

_SHELL = "/bin/sh"
_IN_FOLDER = 'cd -- "$1" && eval "$2"'
_PASS_ON_EVERY = 0.2
"""Seconds between two checks for output of the command."""
_HELD_BACK = (*STOP_SIGNALS, signal.SIGCHLD)
"""Signals that are blocked until they can be handled."""


def run_command(command: str, folder: Path, environment: Mapping[str, str], log: InitLog) -> int:
    """Run a command line in a directory, which is prepended to its PATH; return its exit code.

    The code is 128 + n for signal n. Raises OSError if there is no shell, and `Stopped` after the command, to
    which the signal is forwarded, has ended.
    """
    path = os.pathsep.join(filter(None, [str(folder), environment.get("PATH", os.defpath)]))
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        pid = os.posix_spawn(
            _SHELL,
            [_SHELL, "-c", _IN_FOLDER, _SHELL, str(folder), command],
            {**environment, "PATH": path},
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, *STOP_SIGNALS),
        )
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            while not has_ended(pid):
                signal.sigtimedwait([signal.SIGCHLD], _PASS_ON_EVERY)
                log.pass_on()
        except Stopped as stopped:
            end(pid, stopped.number, group=True)
            raise
        finally:
            log.pass_on()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)
    os.killpg(pid, signal.SIGKILL)  # what it has left running
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else killed_by(-code)
