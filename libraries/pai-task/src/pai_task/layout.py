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
"""Maximum size of the exit record, which is what Kubernetes keeps of it."""

WORK = "work"
"""The working directory of the command."""
LOGS = "logs"
"""The directory of the logs; the platform's directory for logs, if it has one, takes its place."""
USER_LOG = f"{LOGS}/user-all/current"
USER_LOG_TIMES = f"{LOGS}/user-all/times"
"""The times at which the user's log was written (`pai_task.log_file`)."""
RUNTIME_LOG = f"{LOGS}/runtime.log"
PRIVATE = "private"
"""The directory for files that must not outlive the task."""
MASK = f"{PRIVATE}/mask"
"""A FIFO for values that are to be hidden in the logs."""
RELEASE = "release"
"""A file that ends a hold."""

ATTEMPTS = "attempts"
"""The directory with the files of each earlier attempt."""
WRITTEN = "written"
"""The directory with what an isolated task wrote elsewhere; a device 0/0 is a deleted file."""
FILES = "files"
"""The directory that an isolated task sees in the place of its folder while it runs."""
RUNTIME = "runtime"
"""The directory with the runtime's code, read-only, in an isolated task."""
