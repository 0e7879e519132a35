"""A supervisor whose clock jumps ahead at a signal, so that a time limit runs out when a test says so."""

import signal
import time
from types import FrameType

from pai_task.supervisor import __main__ as supervisor

JUMP = signal.SIGURG
"""One that a supervisor does not pass on."""

JUMP_SECONDS = 1000


def main() -> int:
    """Supervise as ``python -m pai_task.supervisor`` does; the task's exit code."""
    real, jumped = time.monotonic, 0

    def jump(_number: int, _frame: FrameType | None) -> None:
        nonlocal jumped
        jumped += JUMP_SECONDS

    signal.signal(JUMP, jump)
    time.monotonic = lambda: real() + jumped
    return supervisor.main()
