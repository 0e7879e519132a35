"""The runtime's own code as a task sees it at a second place, where it cannot change it.

A task has a layer of its own over this machine's files, also over those of our interpreter and of plugins.
What runs beside it with secrets in its hands comes from this copy.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pai_runtime.engines.local.isolation import PLATFORM, Bind
from pai_runtime.task.interpreter import argv_of, search_path
from pai_runtime.task.layout import RUNTIME


@dataclass(frozen=True)
class RuntimeCopy:
    """This interpreter with its modules, each by its own path below `target`, which is a task's `RUNTIME`."""

    target: Path

    @property
    def binds(self) -> Sequence[Bind]:
        """What has to be mounted there."""
        prefix = os.path.realpath(sys.base_prefix)
        places = [os.path.realpath(sys.executable), *_path()]
        outside = [place for place in places if not Path(place).is_relative_to(prefix)]
        return [
            Bind(place, f"{self.target}{place}", read_only=True)
            for place in dict.fromkeys((prefix, *outside))
        ]

    def argv(self, module: str, *args: str) -> list[str]:
        """The argv that calls ``main`` of `module` with `args`, in this copy."""
        # By this name, for a Python does not start in a folder with a colon in its own.
        seen = PLATFORM / RUNTIME
        path = [f"{seen}{entry}" for entry in _path()]
        return argv_of(f"{seen}{os.path.realpath(sys.executable)}", path, module, *args)


def _path() -> list[str]:
    return [entry for entry in map(os.path.realpath, search_path()) if Path(entry).exists()]
