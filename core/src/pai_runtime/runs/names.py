"""What people call a run: the path of its directory, its name in ``.pai-runs``, or ``latest``."""

import os
import re
from pathlib import Path

from pai_runtime.runs.state import RUN, Run, read_run
from pai_runtime.task.layout import PLAN

RUNS = Path(".pai-runs")
"""Where the directories of runs are, unless people say something else."""

LOCK = "run.lock"
"""In the directory of a run: what its engine has locked while it lives."""

LATEST = "latest"

_NEAR = 3
"""Names that are suggested at most."""


class NoSuchRun(Exception):
    """No run is called so, or several are."""


def named_run(name: str) -> Path:
    """The directory that is meant, be it one of a run or not; raises `NoSuchRun`.

    What has a slash in it is a path. Without one, the runs in ``.pai-runs`` are looked through first.
    """
    path = Path(name)
    if "/" in name or path.name in ("", ".."):
        return path
    newest = newest_run() if name == LATEST else None
    known = [folder for folder in (newest, RUNS / name, path) if folder and os.access(folder, os.F_OK)]
    found = [folder for folder in known if os.access(folder / RUN, os.F_OK)]
    if len(found) > 1:
        meant = " or ".join(_unmistakable(folder) for folder in found)
        raise NoSuchRun(f"'{name}' may be several runs; write {meant}")
    for folder in (*found, *known):
        return folder
    raise NoSuchRun(f"there is no run '{name}'{_near(name)}")


def run_folders() -> list[Path]:
    """What is in ``.pai-runs``, be it a run or not."""
    return [path for path in RUNS.iterdir() if path.is_dir()] if RUNS.is_dir() else []


def has_traces(folder: Path) -> bool:
    """Whether a run was begun in a directory, as far as can be seen, be its ``run.json`` there or not.

    Plans of tasks are in it or, in ``.pai-runs``, nothing but a lock: it was killed before it knew its tasks.
    """
    try:
        is_empty = all(path.name == LOCK for path in folder.iterdir())
    except OSError:  # not for us, or removed meanwhile
        return False
    return is_among_runs(folder) if is_empty else any(folder.glob(f"*/*/{PLAN}"))


def is_among_runs(folder: Path) -> bool:
    """Whether a directory is where the runs of one's own are made."""
    return folder.resolve().parent.name == RUNS.name


def newest_run() -> Path | None:
    """The run in ``.pai-runs`` that was started last."""
    runs = [(folder, read_run(folder)) for folder in run_folders()]
    started = [(run.started, _number(folder.name), folder) for folder, run in runs if isinstance(run, Run)]
    return max(started)[-1] if started else None


def _near(name: str) -> str:
    names = sorted((folder.name for folder in run_folders()), key=lambda name: (_number(name), name))
    if not names:
        return f": there is no {RUNS} with runs in this directory"
    import difflib  # noqa: PLC0415 - only where something is misspelt

    begin = [each for each in reversed(names) if each.startswith(name)]
    near = (begin or difflib.get_close_matches(name, names, _NEAR))[:_NEAR]
    return f"; did you mean {', '.join(near)}?" if near else "; pai-runtime ps lists the runs"


def _number(name: str) -> int:
    """Of the runs of one job that were started in the same second, the newest has the highest."""
    number = re.search(r"-([0-9]{1,18})\Z", name)
    return int(number[1]) if number else 0


def _unmistakable(folder: Path) -> str:
    return str(folder) if len(folder.parts) > 1 else f"./{folder}"
