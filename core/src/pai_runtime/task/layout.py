"""The names of the files in a task's directory.

The task itself sees `WORK`, `LOGS`, `PRIVATE` and what it puts there; in an isolated local run nothing else.
"""

PLAN = "plan.json"
SHARED = "shared.json"
"""The part of the plan that all tasks of the job share, unless it is in the plan."""
STATE = "state.json"
EVENTS = "events.jsonl"
VARIABLES = "variables.json"
RECORD = "exit.yaml"
RECORD_BYTES = 4096
"""What Kubernetes keeps of a record, and it has at most."""

WORK = "work"
"""The working directory of the command."""
LOGS = "logs"
"""Where the platform has a directory for logs, that is in its place."""
USER_LOG = f"{LOGS}/user-all/current"
USER_LOG_TIMES = f"{LOGS}/user-all/times"
"""When what is in the user's log was written (`pai_runtime.task.log_times`)."""
RUNTIME_LOG = f"{LOGS}/runtime.log"
PRIVATE = "private"
"""What must not outlive the task."""
MASK = f"{PRIVATE}/mask"
"""A FIFO for values that are to be hidden in the logs."""
RELEASE = "release"
"""A file that ends a hold."""

ATTEMPTS = "attempts"
"""All of this again, of each earlier attempt."""
WRITTEN = "written"
"""What an isolated task wrote elsewhere; a device 0/0 is a deleted file."""
FILES = "files"
"""What an isolated task has in the place of its folder, while it runs."""
RUNTIME = "runtime"
"""In an isolated task, the code of the runtime that it cannot change."""
