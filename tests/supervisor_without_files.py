"""A supervisor that can import nothing from the moment on at which it starts the task's first process.

So it is in a pod where a step or the command has removed the bundle, or put something else in its place.
"""

import sys
from typing import Any

from pai_task.supervisor import __main__, loop, spawning


def main() -> int:
    """As the supervisor's own."""

    def start_without_files(*args: Any) -> int:
        sys.meta_path.clear()
        return spawning.spawn(*args)

    vars(loop)["spawn"] = start_without_files
    return __main__.main()
