"""The runs and tasks that a command line names, what became of them, what produced them, and their files."""

from pai_runtime.cli.given_run import NotThere, given_run, given_tasks
from pai_runtime.plan.show import plan_lines
from pai_runtime.runs.errors import CannotCopy, CannotEnter
from pai_runtime.runs.names import LATEST
from pai_runtime.runs.provenance import Provenance, part, settings
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run, RunTask
from pai_runtime.runs.summary import Callbacks, Failure, Summary, summarise
from pai_runtime.runs.task_files import TaskFile
from pai_runtime.runs.usage import Usage
from pai_task.folder import MOST_LEVELS, Folder

__all__ = [
    "LATEST",
    "MOST_LEVELS",
    "Callbacks",
    "CannotCopy",
    "CannotEnter",
    "Failure",
    "Folder",
    "NotThere",
    "Provenance",
    "Run",
    "RunReader",
    "RunTask",
    "Summary",
    "TaskFile",
    "Usage",
    "given_run",
    "given_tasks",
    "part",
    "plan_lines",
    "settings",
    "summarise",
]
