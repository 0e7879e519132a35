"""Names of runs: the path of a directory, a name in ``.pai-runs``, or ``latest``."""

import os
import re
from pathlib import Path

from pai_runtime.runs.state import RUN, Run, read_run
from pai_task.layout import PLAN

RUNS = Path(".pai-runs")
"""The default directory of the directories of runs."""

LOCK = "run.lock"
"""The file in the directory of a run that its engine keeps locked while it lives."""

LATEST = "latest"

_NEAR = 3
"""Maximum number of names that are suggested."""


class NoSuchRun(Exception):
    """The exception for a name that means no run, or several."""


def named_run(name: str) -> Path:
    """Return the directory that a name means, whether a run is in it or not.

    Raises `NoSuchRun` if there is none. A name with a slash is a path. Others are looked up in ``.pai-runs``
    first.
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
    """List the directories in ``.pai-runs``, whether runs are in them or not."""
    return [path for path in RUNS.iterdir() if path.is_dir()] if RUNS.is_dir() else []


def has_traces(folder: Path) -> bool:
    """Return whether a run was begun in a directory, even if its ``run.json`` is missing.

    Its traces are plans of tasks or, in ``.pai-runs``, only a lock: it was killed before it knew its tasks.
    """
    try:
        is_empty = all(path.name == LOCK for path in folder.iterdir())
    except OSError:  # not for us, or removed meanwhile
        return False
    return is_among_runs(folder) if is_empty else any(folder.glob(f"*/*/{PLAN}"))


def is_among_runs(folder: Path) -> bool:
    """Return whether a directory is in a ``.pai-runs``, where names for runs are chosen for the user."""
    return folder.resolve().parent.name == RUNS.name


def newest_run() -> Path | None:
    """Return the directory of the run in ``.pai-runs`` that was started last; None if there is none."""
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
    """Return the number at the end of a run's name; it is highest for the newest of the same second."""
    number = re.search(r"-([0-9]{1,18})\Z", name)
    return int(number[1]) if number else 0


def _unmistakable(folder: Path) -> str:
    return str(folder) if len(folder.parts) > 1 else f"./{folder}"
