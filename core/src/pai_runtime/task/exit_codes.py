"""The runtime's own exit codes; all others are the command's, or those of an exit spec."""

SETUP_FAILED = 240
"""Of a task one of whose start steps failed."""
RUNTIME_ERROR = 241
"""Of a task that the runtime itself could not run."""
TIMEOUT = 242
"""Of a task that was ended by its time limit."""
