"""The protocol between a caller who runs a program in a task and the task's supervisor.

The caller connects to the socket `SESSIONS` in the task's folder, outside of what an isolated task sees, and
sends a JSON object with three open files, which are the standard streams of the program:

- ``argv``: the program; empty for a shell.
- ``terminal``: whether the first of the files is to be the program's controlling terminal.
- ``variables``: what it has besides the variables of the task, such as ``TERM``.

From then on ``{"signal": n}`` sends a signal to its process group. The answer, when it has ended, is
``{"exitCode": n}``, with a ``message`` if it could not be started. A caller who closes the connection hangs
up.
"""

SESSIONS = "exec.sock"
MOST_MESSAGE = 128 * 1024
"""Maximum size of one message."""
STREAMS = 3
