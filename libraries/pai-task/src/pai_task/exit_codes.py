"""The exit codes of all processes of the runtime; all others are the user's, an exit spec's or a plugin's."""

MOST_CODE = 255
"""The highest that a process can end with."""


def killed_by(number: int) -> int:
    """Return the exit code that says, as a shell does, that the signal of this number ended a process."""
    return 128 + number


# Of the command `pai-runtime`, in whatever container.

INVALID = 1
"""The input is invalid."""
CANNOT_RUN = 2
"""The command cannot be executed; also of a command line that is not understood."""
INTERRUPTED = killed_by(2)
"""Ctrl-C ended it."""

# Of a program that is started, as a shell has them.

NOT_EXECUTED, NOT_FOUND = 126, 127
"""It cannot be executed; there is no such program."""

# Of the supervisor, which are those of a task; the command's own beside them.

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

# Of an init container, which has `CANNOT_RUN` too, and the code of an init plugin that is a failed command.

INIT_FAILED = 1
"""The job, the configuration or the policy is wrong, or the runtime itself failed."""
INIT_UNREACHABLE = 250
"""In all of its time, the barrier could not learn where the other tasks are."""
INIT_GANG_TIMEOUT = 251
"""At the end of the barrier's time, other tasks of the job had no address."""
INIT_REFUSED = 252
"""The barrier was refused what it asks for."""
INIT_PORT_TAKEN = 253
"""Another process has a port of the task."""
INIT_NO_IMAGE = 254
"""The image of the task certainly does not exist."""

PERMANENT_INIT_CODES = (INIT_FAILED, CANNOT_RUN, INIT_REFUSED, INIT_NO_IMAGE)
"""Exit codes of init that another attempt would end with too: its input is wrong."""
