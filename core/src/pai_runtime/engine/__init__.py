"""The public API for engines; what is not in `__all__` here is not public.

An engine runs jobs elsewhere, such as on a cluster. It is a plugin whose manifest has a name for it in the
field ``engine``, which engine profiles name as theirs, and whose hook `pai_engine` opens an `Engine`::

    from pai_runtime.engine import Engine, NewRun, Profile, RunReader, RunRequest
    from pai_runtime.plugin import hookimpl


    class Farm(Engine):
        cannot = {"--task": "all tasks of a job run", "rm": "the farm keeps its runs"}

        def new_run(self, request: RunRequest) -> NewRun: ...

        def open_run(self, name: str) -> RunReader: ...

        def runs(self): ...


    @hookimpl
    def pai_engine(profile: Profile) -> Engine:
        return Farm()

It answers what `Engine`, `NewRun` and `RunReader` ask; what people see, such as a live view and a summary, is
made of the answers. Not every engine needs ``classes``, ``code``, ``documents``, ``jobs``, ``keeping``,
``records`` and ``messages`` beside this. The HTTP client for those that ask a server is the distribution
pai-network, and pai-conformance has the tests that each engine passes.
"""

from pai_document.problems import InvalidInput, Location, Problem, Problems
from pai_document.value import Value
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import Engine, NewRun, Option, Rendered, RunRequest
from pai_runtime.engines.profiles import Profile
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.plan.environment import Placement
from pai_runtime.runs.errors import CannotCopy, CannotEnter, CannotRemove, CannotRun, ClusterError, MayBeLeft
from pai_runtime.runs.progress import Progress
from pai_runtime.runs.reader import LogReader, RunReader, TaskVariables
from pai_runtime.runs.state import Run, RunTask, Unreadable
from pai_runtime.runs.task_files import TaskFile
from pai_task.plan import Plan

__all__ = [
    "CannotCopy",
    "CannotEnter",
    "CannotRemove",
    "CannotRun",
    "ClusterError",
    "Code",
    "Engine",
    "InvalidInput",
    "Job",
    "Location",
    "LogReader",
    "MayBeLeft",
    "NewRun",
    "Option",
    "Placement",
    "Plan",
    "Problem",
    "Problems",
    "Profile",
    "Progress",
    "Rendered",
    "Run",
    "RunReader",
    "RunRequest",
    "RunTask",
    "TaskFile",
    "TaskRole",
    "TaskVariables",
    "Unreadable",
    "Value",
]
