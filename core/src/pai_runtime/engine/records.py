"""What tasks of the runtime leave, for engines that read it, its types, and which of them failed first."""

from pai_runtime.plan.environment import TaskName
from pai_runtime.runs.completion import Decision, decision, first_failure
from pai_runtime.runs.failed_callbacks import count_failed_callbacks
from pai_runtime.runs.log_times import Piece
from pai_runtime.runs.logs_at_once import MOST_AT_ONCE, LogsAtOnce
from pai_runtime.runs.progress import progress_of
from pai_runtime.runs.reader import LogName
from pai_runtime.runs.state import RunOutcome, TaskStatus
from pai_task.exit_record import read_termination_message
from pai_task.runtime_log import text_of

__all__ = [
    "MOST_AT_ONCE",
    "Decision",
    "LogName",
    "LogsAtOnce",
    "Piece",
    "RunOutcome",
    "TaskName",
    "TaskStatus",
    "count_failed_callbacks",
    "decision",
    "first_failure",
    "progress_of",
    "read_termination_message",
    "text_of",
]
