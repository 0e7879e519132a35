"""The directory of a run."""

import contextlib
from pathlib import Path

from pai_runtime.job.model import Job
from pai_runtime.runs.cannot_run import CannotRun
from pai_runtime.runs.names import RUNS


class RunFolder:
    """The directory of a new run: `out`, which must be empty or not exist, or ``.pai-runs/<job>-<n>``."""

    def __init__(self, job: Job, out: Path | None) -> None:
        try:
            self._made: list[Path] = []
            self.path = self._given(out) if out is not None else self._numbered(job.name)
        except OSError as error:
            message = f"cannot create the directory of the run: {error.filename}: {error.strerror}"
            raise CannotRun(message) from None

    def discard(self) -> None:
        """Take back what was made, as far as nothing is in it."""
        with contextlib.suppress(OSError):
            for folder in reversed(self._made):
                folder.rmdir()

    def _given(self, out: Path) -> Path:
        out = out.absolute()
        if not out.exists():
            self._make(out)
        elif any(out.iterdir()):
            raise CannotRun(f"{out} is not empty; choose a new directory with --out")
        return out

    def _numbered(self, name: str) -> Path:
        runs = RUNS.absolute()
        if not runs.exists():
            self._make(runs)
        number = 1
        while True:
            try:
                return self._make(runs / f"{name}-{number}")
            except FileExistsError:
                number += 1

    def _make(self, folder: Path) -> Path:
        missing = [each for each in (*reversed(folder.parents), folder) if not each.exists()]
        folder.mkdir(parents=True)
        self._made += missing
        return folder
