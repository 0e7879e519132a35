"""Writing the exit record of a task, in its directory and where its platform expects it."""

import os
import sys

from pai_runtime.task.events import EventFile
from pai_runtime.task.exit_codes import RUNTIME_ERROR
from pai_runtime.task.exit_record import exit_record, termination_message
from pai_runtime.task.folder import Folder
from pai_runtime.task.launch import LaunchOptions
from pai_runtime.task.layout import RECORD
from pai_runtime.task.outcome import Result
from pai_runtime.task.state import Journal


def cannot_run(folder: Folder, message: str, options: LaunchOptions) -> int:
    """Say that a task cannot be run, and leave a record of it; its exit code."""
    sys.stderr.write(f"pai-runtime: {message}\n")
    result = Result("setup-failed", RUNTIME_ERROR, "init", message=message)
    write_record(folder, exit_record(result), options.termination_log)
    journal = Journal(folder, EventFile(folder))
    journal.add("supervisorStarted", pid=options.pid or os.getpid(), phases=options.phases)
    journal.add("ended", outcome=result.outcome, exitCode=result.code)
    return RUNTIME_ERROR


def write_record(folder: Folder, text: str, termination_log: str | None) -> None:
    """Write the record; what cannot be written is said on standard error."""
    try:
        folder.write(RECORD, text)
    except OSError as error:
        sys.stderr.write(f"pai-runtime: cannot write {error.filename}: {error.strerror}\n{text}")
    if termination_log is not None:
        above, name = os.path.split(termination_log)
        try:
            # In place: on Kubernetes it is a file that is mounted, which nothing can be renamed to.
            with Folder.at(above or ".") as holder:
                fd = holder.append(name)
            with os.fdopen(fd, "wb") as file:
                file.truncate(0)
                file.write(termination_message(text).encode())
        except OSError as error:
            sys.stderr.write(f"pai-runtime: cannot write {termination_log}: {error.strerror}\n")
