"""A read-only copy of the runtime's own code, as isolated tasks see it.

A task has a layer of its own over this machine's files, also over those of our interpreter and of plugins.
What runs beside it with secrets in its hands comes from this copy.
"""

import os
import sys
from functools import cache
from pathlib import Path

from pai_runtime.engines.local.isolation import PLATFORM, Bind
from pai_runtime.task.interpreter import search_path
from pai_runtime.task.layout import RUNTIME

SEEN = PLATFORM / RUNTIME
"""The path of the copy in a task, without a colon, with which no Python would start."""


def runtime_binds(target: Path) -> list[Bind]:
    """Return the binds of this interpreter and its modules, each at its own path below `target`."""
    return [Bind(path, f"{target}{path}", read_only=True) for path in _roots()]


@cache
def _roots() -> tuple[str, ...]:
    prefix = os.path.realpath(sys.base_prefix)
    paths = [os.path.realpath(sys.executable), *_own_search_path()]
    outside = [path for path in paths if not Path(path).is_relative_to(prefix)]
    return tuple(dict.fromkeys((prefix, *outside)))


def run_from_copy() -> None:
    """Make this isolated process load and start everything else from its copy."""
    sys.executable = f"{SEEN}{os.path.realpath(sys.executable)}"
    sys.path[:] = [f"{SEEN}{entry}" for entry in _own_search_path()]
    for module in list(sys.modules.values()):
        if hasattr(module, "__path__"):
            module.__path__ = [f"{SEEN}{os.path.realpath(entry)}" for entry in module.__path__]


def _own_search_path() -> list[str]:
    return [entry for entry in map(os.path.realpath, search_path()) if Path(entry).exists()]
