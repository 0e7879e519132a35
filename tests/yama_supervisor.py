"""A supervisor that finds a kernel which lets only ancestors of a process trace it; not every one does."""

import tempfile
from pathlib import Path

from pai_task.supervisor import __main__, keeper


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        scope = Path(folder, "ptrace_scope")
        scope.write_text("1\n")
        keeper.YAMA = str(scope)
        return __main__.main()
