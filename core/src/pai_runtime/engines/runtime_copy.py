"""The runtime's own code as a task sees it at a second place, where it cannot change it.

A task has a layer of its own over this machine's files, also over those of our interpreter and of plugins.
What runs beside it with secrets in its hands comes from this copy.
"""

import os
import sys
from pathlib import Path

from pai_runtime.engines.isolation import Bind
from pai_runtime.task.interpreter import Interpreter, this_interpreter


def runtime_copy(target: Path) -> tuple[Interpreter, tuple[Bind, ...]]:
    """This interpreter with its modules, each by its own path below `target`; and what has to be mounted there."""
    here, prefix = this_interpreter(), os.path.realpath(sys.base_prefix)
    path = [entry for entry in map(os.path.realpath, here.path) if Path(entry).exists()]
    executable = os.path.realpath(here.executable)
    outside = [entry for entry in (executable, *path) if not Path(entry).is_relative_to(prefix)]
    binds = [Bind(entry, f"{target}{entry}", read_only=True) for entry in dict.fromkeys((prefix, *outside))]
    return Interpreter(f"{target}{executable}", [f"{target}{entry}" for entry in path]), tuple(binds)
