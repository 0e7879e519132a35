"""Another process of this interpreter."""

import sys

_START = (
    "import sys; end = 2 + int(sys.argv[1]); sys.path[:] = sys.argv[2:end]; del sys.argv[1:end]; "
    "from importlib import import_module; sys.exit(import_module(sys.argv.pop(1)).main())"
)


def python_argv(module: str, *args: str) -> list[str]:
    """The argv that calls ``main`` of `module` with `args`.

    It has this process's search path, whatever the environment and the working directory there say, does
    not spend time on finding one, and runs no ``.pth`` file.
    """
    path = [entry for entry in sys.path if entry.startswith("/")]
    return [sys.executable, "-I", "-S", "-c", _START, str(len(path)), *path, module, *args]
