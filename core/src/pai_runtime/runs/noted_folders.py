"""The directories in which this user has had runs: links in the state directory, for ``ps --all`` alone.

They may be deleted at any time. Where their directory cannot be made, such as with a link to ``/dev/null`` in
its place, nothing is noted.
"""

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Final

from pai_document.configuration_files import user_directory
from pai_runtime.runs.names import is_among_runs

_NAME: Final = "runs"


def note_folder(run: Path) -> None:
    """Note the ``.pai-runs`` that the directory of a run is in, or that directory itself, if it can be."""
    folder = os.path.realpath(run.parent if is_among_runs(run) else run)
    state = user_directory("XDG_STATE_HOME", ".local/state")
    if state is None:
        return
    link = state / _NAME / hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
    with contextlib.suppress(OSError):
        if not link.is_symlink():
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if link.name.startswith("0"):  # one in 16: looking at all takes longer the more there are
                noted_folders()
            link.symlink_to(folder)


def noted_folders() -> list[Path]:
    """Return the directories that were noted and still exist; what is noted of others is removed."""
    state = user_directory("XDG_STATE_HOME", ".local/state")
    found = []
    with contextlib.suppress(OSError):
        for link in (state / _NAME).iterdir() if state else ():
            with contextlib.suppress(OSError):
                folder = link.readlink()
                if folder.is_dir():
                    found.append(folder)
                else:
                    link.unlink()
    return sorted(found)
