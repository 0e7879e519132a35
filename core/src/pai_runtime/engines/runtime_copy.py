"""The runtime's own code as a task sees it at a second place, where it cannot change it.

A task has a layer of its own over this machine's files, also over those of our interpreter and of plugins. What
runs beside it with secrets in its hands comes from this copy.
"""

import os
import sys
from pathlib import Path

from pai_runtime.engines.isolation import Bind
from pai_runtime.task.interpreter import Interpreter, this_interpreter


def runtime_copy(target: Path) -> tuple[Interpreter, tuple[Bind, ...]]:
    """This interpreter with its modules as it is below `target`, and what has to be mounted there."""
    here, prefix = this_interpreter(), os.path.realpath(sys.base_prefix)
    binds = [Bind(prefix, str(target / "python"), read_only=True)]
    path = []
    for number, entry in enumerate(map(os.path.realpath, here.path)):
        if Path(entry).is_relative_to(prefix):
            path.append(str(target / "python" / Path(entry).relative_to(prefix)))
        elif Path(entry).exists():
            binds.append(Bind(entry, str(target / str(number)), read_only=True))
            path.append(binds[-1].target)
    executable = Path(os.path.realpath(here.executable))
    if not executable.is_relative_to(prefix):  # somebody has put it together in a way of his own
        return here, ()
    return Interpreter(str(target / "python" / executable.relative_to(prefix)), path), tuple(binds)
