"""The process of a batch script. It asks Slurm first, which answers while the rest is imported."""

import os
import sys
from contextlib import closing
from pathlib import Path

from pai_slurm.allocation import Allocation


def main() -> int:
    """Run what was submitted in the directory that is named, and return its exit status."""
    with closing(Allocation(os.environ)) as allocation:
        from pai_slurm.supervised import run_submitted  # noqa: PLC0415 - see above

        return run_submitted(Path(sys.argv[1]), allocation)
