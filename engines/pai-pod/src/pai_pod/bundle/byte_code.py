"""Byte code for a bundle, in the place of the source."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from pai_pod.bundle.errors import CannotBundle
from pai_task.paths import BUNDLE

_COMPILE = """
import os, sys
from py_compile import PycInvalidationMode, PyCompileError, compile
target, prefix = sys.argv[1:]
for line in sys.stdin:
    path = line.removesuffix("\\n")
    try:
        compile(path, cfile=f"{path}c", dfile=prefix + path[len(target):], doraise=True,
                invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    except (PyCompileError, UnicodeDecodeError):
        continue  # an example of bad code, or a template
    os.unlink(path)
"""


def add_byte_code(target: Path, sources: Iterable[Path]) -> None:
    """Compile sources, always in the same order in a new process: the same sources give the same bytes.

    It takes the place of the sources: nobody reads them in a task, and each pod would get a copy.
    """
    ended = subprocess.run(
        [sys.executable, "-S", "-c", _COMPILE, target, BUNDLE],
        input="".join(f"{path}\n" for path in sources),
        env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        umask=0o022,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise CannotBundle(f"cannot compile the bundle: {ended.stderr.strip()}")
