"""``python -m pai_task.supervisor FOLDER [OPTIONS]``: run the task whose plan is in FOLDER.

OPTIONS is a JSON object, the launch options (`pai_task.launch`).
"""

from __future__ import annotations

import os
import sys

from pai_task.exit_codes import RUNTIME_ERROR
from pai_task.folder import Folder
from pai_task.launch import LaunchOptions
from pai_task.supervisor.spawning import open_standard_streams
from pai_task.supervisor.supervisor import supervise

_USAGE_ERROR = 2


def main() -> int:
    """Supervise the task on the command line, and return its exit code."""
    open_standard_streams()
    try:
        folder, options = _arguments()
    except ValueError as error:
        sys.stderr.write(f"pai-runtime: {error}\nusage: python -m pai_task.supervisor FOLDER [OPTIONS]\n")
        return _USAGE_ERROR
    except OSError as error:
        sys.stderr.write(f"pai-runtime: {error.filename} cannot be opened: {error.strerror}\n")
        return RUNTIME_ERROR
    return supervise(folder, options)


def _arguments() -> tuple[Folder, LaunchOptions]:
    if len(sys.argv) not in (2, 3):
        raise ValueError("expected a directory and, optionally, launch options")
    options = LaunchOptions.from_argument(sys.argv[2]) if len(sys.argv) > 2 else LaunchOptions()  # noqa: PLR2004
    path = os.path.abspath(sys.argv[1])
    if options.folder_fd is not None:
        return Folder(options.folder_fd, path), options
    return Folder.at(path), options


if __name__ == "__main__":
    sys.exit(main())
