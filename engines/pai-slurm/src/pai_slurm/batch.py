"""The process of a batch script: the run supervisor of what was submitted in a directory."""

import os
import sys
from dataclasses import replace
from pathlib import Path

from pai_runtime.engine import NewRun, RunRequest
from pai_runtime.engine.local import Folder
from pai_runtime.engine.submitting import run_submission
from pai_slurm.allocation_engine import AllocationEngine
from pai_slurm.submitted import note_job, read_settings


def main() -> int:
    """Run what was submitted in the directory that is named, and return its exit status."""
    path = Path(sys.argv[1])
    with Folder.at(path) as folder:
        note_job(folder, os.environ["SLURM_JOB_ID"])
        images, storages = read_settings(folder)

    def new_run(request: RunRequest) -> NewRun:
        options = {"storage": tuple(storages.items())}
        return AllocationEngine(images).new_run(replace(request, options=options))

    return run_submission(path, path / path.name, new_run)
