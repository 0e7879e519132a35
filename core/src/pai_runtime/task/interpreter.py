"""Another process of this interpreter."""

import json
import sys
from pathlib import Path

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from importlib import import_module; sys.exit(import_module(sys.argv.pop(1)).main())"
)


def python_argv(module: str, *args: str) -> list[str]:
    """The argv that calls ``main`` of `module` with `args`.

    It has this process's search path, whatever the environment and the working directory there say, and
    does not spend time on finding one.
    """
    path = [entry for entry in sys.path if Path(entry).is_absolute()]
    return [sys.executable, "-I", "-S", "-c", _START, json.dumps(path), module, *args]
