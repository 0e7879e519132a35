"""Command lines that run a module in another process of this interpreter, or of a copy of it."""

import sys

_START = (
    "import sys; end = 2 + int(sys.argv[1]); sys.path[:] = sys.argv[2:end]; del sys.argv[1:end]; "
    "name = sys.argv.pop(1); __import__(name); sys.exit(sys.modules[name].main())"
)

_HOOK_RUNNER = "pai_runtime.host.hook_runner"


def search_path() -> list[str]:
    """Return the absolute entries of `sys.path`, which hold in any working directory."""
    return [entry for entry in sys.path if entry.startswith("/")]


def python_argv(module: str, *args: str) -> list[str]:
    """Return the argv that calls ``main`` of `module` with `args` in this interpreter and search path."""
    return argv_of(sys.executable, search_path(), module, *args)


def hook_argv() -> tuple[str, ...]:
    """Return the argv that calls a plugin's hook; the hook's name is to be added."""
    return tuple(python_argv(_HOOK_RUNNER))


def argv_of(executable: str, path: list[str], module: str, *args: str) -> list[str]:
    """Return the argv that calls ``main`` of `module` in an interpreter with a search path.

    The search path holds whatever the environment and the working directory there say, costs no time to find
    out, and runs no ``.pth`` file.
    """
    return [executable, "-I", "-S", "-c", _START, str(len(path)), *path, module, *args]
