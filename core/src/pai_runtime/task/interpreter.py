"""Another process of this interpreter."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from importlib import import_module; sys.exit(import_module(sys.argv.pop(1)).main())"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python, and where it finds modules."""

    executable: str
    path: Sequence[str]

    def argv(self, module: str, *args: str) -> list[str]:
        """The argv that calls ``main`` of `module` with `args`.

        It has this search path, whatever the environment and the working directory there say, and does not
        spend time on finding one.
        """
        return [self.executable, "-I", "-S", "-c", _START, json.dumps(self.path), module, *args]


def this_interpreter() -> Interpreter:
    """The one that runs this, with its search path."""
    return Interpreter(sys.executable, [entry for entry in sys.path if os.path.isabs(entry)])


def python_argv(module: str, *args: str) -> list[str]:
    """The argv that calls ``main`` of `module` with `args`, in this interpreter."""
    return this_interpreter().argv(module, *args)
