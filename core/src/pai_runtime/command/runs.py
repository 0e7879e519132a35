"""The runs and tasks that a command line names, what produced them, and their files."""

from pai_runtime.cli.given_run import NotThere, given_run, given_tasks
from pai_runtime.runs.errors import CannotCopy, CannotEnter
from pai_runtime.runs.names import LATEST
from pai_runtime.runs.provenance import Provenance, part, settings
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.runs.task_files import TaskFile
from pai_runtime.task.folder import MOST_LEVELS, Folder

__all__ = [
    "LATEST",
    "MOST_LEVELS",
    "CannotCopy",
    "CannotEnter",
    "Folder",
    "NotThere",
    "Provenance",
    "Run",
    "RunReader",
    "RunTask",
    "TaskFile",
    "given_run",
    "given_tasks",
    "part",
    "settings",
]
