"""The directory of a new run."""

import contextlib
import os
import stat
from pathlib import Path

from pai_runtime.runs.errors import CannotRun
from pai_runtime.runs.names import LOCK, RUNS
from pai_runtime.runs.run_lock import lock
from pai_task.folder import Folder


class RunFolder:
    """The directory of a new run: `out`, which must be empty or missing, or ``.pai-runs/<job>-<n>``.

    Raises `CannotRun`. It is locked until `unlock`. Other users cannot look into it unless it is `shared`.
    """

    def __init__(self, job: str, out: Path | None, *, shared: bool = False) -> None:
        self._made: list[Path] = []
        self._mode = 0o777 if shared else 0o700
        self._lock = -1
        try:
            self.path = self._given(out) if out is not None else self._numbered(job)
            self._claim(self.path)
        except CannotRun:
            self._take_back()
            raise
        except OSError as error:
            self._take_back()
            message = f"cannot create the directory of the run: {error.filename}: {error.strerror}"
            raise CannotRun(message) from None

    def discard(self) -> None:
        """Remove the directories that were created, as far as they are empty."""
        with contextlib.suppress(OSError):
            (self.path / LOCK).unlink(missing_ok=True)
        self.unlock()
        self._take_back()

    def unlock(self) -> None:
        """Release the lock, so that others may remove the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _take_back(self) -> None:
        with contextlib.suppress(OSError):
            for folder in reversed(self._made):
                folder.rmdir()

    def _given(self, out: Path) -> Path:
        out = out.absolute()
        if out.exists():
            _check_empty(out)
        else:
            with contextlib.suppress(FileExistsError):  # a run that began at the same time; one gets the lock
                self._make(out)
        return out

    def _numbered(self, name: str) -> Path:
        runs = RUNS.absolute()
        number = 1
        while True:
            try:
                return self._make(runs / f"{name}-{number}")
            except FileExistsError:
                number += 1

    def _make(self, folder: Path) -> Path:
        missing = [each for each in (*reversed(folder.parents), folder) if not each.exists()]
        folder.mkdir(self._mode, parents=True)
        self._made += missing
        return folder

    def _claim(self, folder: Path) -> None:
        with Folder.at(folder) as opened:
            try:
                self._lock = lock(opened)
            except BlockingIOError:
                message = f"another run is using {folder}; choose a new directory with --out"
                raise CannotRun(message) from None
            try:
                _check_empty(folder)
                if stat.S_IMODE(folder.stat().st_mode) & ~self._mode & 0o077:
                    _make_private(folder)
            except BaseException:
                self.unlock()
                raise


def _check_empty(folder: Path) -> None:
    if any(each.name != LOCK for each in folder.iterdir()):
        raise CannotRun(f"{folder} is not empty; choose a new directory with --out")


def _make_private(folder: Path) -> None:
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise CannotRun(
            f"others can look into {folder}, and that cannot be changed ({error.strerror}); "
            "choose a new directory with --out, or allow it with --share"
        ) from None
