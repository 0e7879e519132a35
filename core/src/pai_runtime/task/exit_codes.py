"""The exit codes of a task that are the runtime's own; all others are the command's or an exit spec's."""

CALLBACK_FAILED = 227
"""The command succeeded, but a callback after it failed, and the job has strict callbacks."""
SETUP_FAILED = 240
"""A step of the setup failed, and the command was not run."""
RUNTIME_ERROR = 241
"""The runtime could not run the task."""
TIMEOUT = 242
"""The task was ended by its timeout."""
UNEXPLAINED = 255
"""On OpenPAI only: no rule explains the failure, or its exit spec does not list the code."""
