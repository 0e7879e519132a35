"""A supervisor with a fault of its own: it raises when the task enters the phase that `FAULT_IN` names."""

import os
from typing import Any

from pai_task.supervisor import __main__, runner


def main() -> int:
    enter = runner.TaskRunner._enter

    def fail(self: runner.TaskRunner, phase: Any) -> None:
        enter(self, phase)
        if phase == os.environ["FAULT_IN"]:
            raise OverflowError("a fault")

    runner.TaskRunner._enter = fail  # type: ignore[method-assign]
    return __main__.main()
