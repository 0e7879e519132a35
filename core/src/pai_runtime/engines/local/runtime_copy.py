"""A read-only copy of the runtime's own code, as isolated tasks see it.

A task has a layer of its own over this machine's files, also over those of our interpreter and of plugins.
What runs beside it with secrets in its hands comes from this copy.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from pai_runtime.engines.local.isolation import PLATFORM
from pai_runtime.engines.local.launch import Bind
from pai_task.interpreter import search_path
from pai_task.layout import RUNTIME

SEEN = PLATFORM / RUNTIME
"""The path of the copy in a task, without a colon, with which no Python would start."""


def runtime_binds(target: Path) -> list[Bind]:
    """Return the binds of this interpreter and its modules, each at its own path below `target`."""
    return [Bind(path, f"{target}{path}") for path in _roots()]


def look_up_paths() -> None:
    """Find out, once for all supervisors that are forked from this process, where our code really is."""
    _roots()
    list(_packages())


def run_from_copy() -> None:
    """Make this isolated process load and start everything else from its copy."""
    sys.executable = f"{SEEN}{_real(sys.executable)}"
    sys.path[:] = [f"{SEEN}{entry}" for entry in _own_search_path()]
    for package, paths in _packages():
        package.__path__ = [f"{SEEN}{path}" for path in paths]


_real = cache(os.path.realpath)


@cache
def _roots() -> tuple[str, ...]:
    prefix = _real(sys.base_prefix)
    outside = [
        path for path in (_real(sys.executable), *_own_search_path()) if not Path(path).is_relative_to(prefix)
    ]
    return tuple(dict.fromkeys((prefix, *outside)))


@cache
def _own_search_path() -> tuple[str, ...]:
    return tuple(entry for entry in map(_real, search_path()) if Path(entry).exists())


def _packages() -> Iterator[tuple[ModuleType, list[str]]]:
    for module in list(sys.modules.values()):
        if hasattr(module, "__path__"):
            yield module, [_real(entry) for entry in module.__path__]
