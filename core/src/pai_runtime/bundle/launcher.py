"""The launcher: the command of the task container, which starts the bundle's interpreter in any image."""

import shlex

from pai_runtime.bundle.interpreter import PROGRAM, SEARCH_PATH
from pai_runtime.bundle.site import SITE
from pai_runtime.task.bundle import PREFIX, RENAMED, RENAMED_NAMES, RENAMED_PREFIXES
from pai_runtime.task.interpreter import argv_of

_ENTRY = "pai_runtime.pod.entry"

_SCRIPT = """\
#!{prefix}/bin/bash -p
# The command of the task container: starts the runtime, in whatever image. The shell is a static program, and
# -p has it import neither functions nor options. What would reach the interpreter, or its C library, gets
# another name, and {entry} gives it back to what the user runs.
for name in {names}; do
    if [[ -v $name ]]; then
        export "{renamed}$name=${{!name}}"
        unset -v "$name"
    fi
done
export LC_ALL=C
exec {argv} "$@"
"""


def launcher() -> str:
    """The script."""
    argv = argv_of(f"{PREFIX}/{PROGRAM}", [f"{PREFIX}/{SITE}", *SEARCH_PATH], _ENTRY)
    names = [*RENAMED_NAMES, *(f'"${{!{prefix}@}}"' for prefix in RENAMED_PREFIXES)]
    return _SCRIPT.format(
        prefix=PREFIX, entry=_ENTRY, names=" ".join(names), renamed=RENAMED, argv=shlex.join(argv)
    )
