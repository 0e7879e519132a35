"""Byte code of a bundle, valid without a look at its sources, whose modification times are arbitrary."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from pai_runtime.bundle.errors import CannotBundle
from pai_runtime.bundle.interpreter import STANDARD_LIBRARY
from pai_runtime.task.bundle import PREFIX

_COMPILE = """
import os, sys
from py_compile import PycInvalidationMode, PyCompileError, compile
target, prefix, library = sys.argv[1:]
for line in sys.stdin:
    path = line.removesuffix("\\n")
    instead = path.startswith(library)
    try:
        compile(path, cfile=f"{path}c" if instead else None, dfile=prefix + path[len(target):], doraise=True,
                invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    except (PyCompileError, UnicodeDecodeError):
        continue  # an example of bad code, or a template
    if instead:
        os.unlink(path)
"""


def add_byte_code(target: Path, sources: Iterable[Path]) -> None:
    """Compile sources reproducibly: in a new process, and in the order given.

    The standard library's byte code replaces its sources, which nobody reads in a task.
    """
    ended = subprocess.run(
        [sys.executable, "-S", "-c", _COMPILE, target, PREFIX, f"{target / STANDARD_LIBRARY}/"],
        input="".join(f"{path}\n" for path in sources),
        env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        umask=0o022,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise CannotBundle(f"cannot compile the bundle: {ended.stderr.strip()}")
