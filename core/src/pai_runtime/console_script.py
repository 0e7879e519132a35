"""The console script: restarts itself in an interpreter that runs no ``.pth`` file.

The one that it is called in has run those of all that is installed, also of what the policy refuses. It
imports next to nothing, for all that it does is time lost.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` takes longer


def main() -> None:
    """Replace this process with the command line, with its search path but without the script's directory."""
    # Until there is somebody who handles it: Ctrl-C would show where Python was. Before this line it does,
    # while Python starts and runs `site`: no script has a say there.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    from pai_task.interpreter import python_argv  # noqa: PLC0415 - not before that

    if "--print-logs" in sys.argv:  # the first process of a container loses a signal that comes too early
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
    if sys.path[0] == os.path.dirname(os.path.realpath(sys.argv[0])):  # noqa: PTH120 - pathlib takes too long
        del sys.path[0]
    argv = python_argv("pai_runtime.cli", *sys.argv[1:])
    os.execv(argv[0], argv)  # noqa: S606 - no shell is wanted
