"""The report of a run that took a while: it is made when the run has ended, and nothing waits for it."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from pai_document.problems import InvalidInput
from pai_runtime.host.discovery import declared_commands
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run
from pai_task.interpreter import python_argv

LEAST: Final = 60.0
"""Seconds that a run has to take: a report costs as much CPU time as a short run."""

_STOP_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Those that we may be ignoring, and the report shall not."""


def begin_report(reader: RunReader, run: Run) -> Path | None:
    """Begin to make the report of a run that has ended, and return where it will be; None if none is made.

    None is made of a run that took less than `LEAST`, or of one on a cluster, or if no plugin that may be
    used brings the command, or if it cannot be started: how the run ended is what counts.
    """
    folder = None if reader.on else reader.folder
    if folder is None or run.ended is None or run.ended - run.started < LEAST:
        return None
    path = folder / "report.html"
    try:
        if not _is_brought():
            return None
        argv = python_argv("pai_runtime.cli", "report", str(folder), "--out", str(path))
        nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
        pid = os.posix_spawn(
            argv[0], argv, os.environ, file_actions=nothing, setsid=True, setsigdef=_STOP_SIGNALS
        )
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, pid, 19)
    except (InvalidInput, OSError):
        return None
    return path


def _is_brought() -> bool:
    host = given_host(None, manifests=False)
    plugins = (claimants[0] for id_, claimants in host.installed.items() if host.refusal(id_) is None)
    return any(command.name == "report" for plugin in plugins for command in declared_commands(plugin))
