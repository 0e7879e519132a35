"""``python -m pai_runtime.task FOLDER``: run the task whose plan is in FOLDER."""

import argparse
import os
import sys
from pathlib import Path

from pai_runtime.supervisor.logs import Rotation
from pai_runtime.supervisor.supervisor import Options, supervise
from pai_runtime.task.folder import Folder
from pai_runtime.task.memfd import hand_over_script
from pai_runtime.task.outcome import RUNTIME_ERROR


def main() -> int:
    """Read the command line and supervise; the task's exit code."""
    hand_over_script(b"")  # takes its place among the open files before anything else does
    parser = argparse.ArgumentParser(prog="python -m pai_runtime.task", description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="holds plan.json and work/; logs/ and exit.yaml are written"
    )
    parser.add_argument("--timeout", type=float, help="seconds until the task is ended")
    parser.add_argument(
        "--grace", type=float, default=Options.grace, help="seconds between SIGTERM and SIGKILL"
    )
    parser.add_argument(
        "--exit-budget",
        type=float,
        default=Options.exit_budget,
        help="seconds that exit callbacks have once the task is told to stop",
    )
    parser.add_argument("--prefix", default="", help="stands before each line that is passed on")
    parser.add_argument("--log-size", type=int, default=Rotation.size, help="bytes of one file of a log")
    parser.add_argument("--log-count", type=int, default=Rotation.count, help="files that are kept of a log")
    parser.add_argument(
        "--termination-log",
        type=Path,
        help="where the platform looks for why the task ended, such as /tmp/pai-termination-log",
    )
    parser.add_argument("--folder-fd", type=int, help="descriptor of FOLDER, where the task cannot see it")
    parser.add_argument("--secrets-fd", type=int, help="descriptor of a JSON object with values of secrets")
    parser.add_argument("--pid", type=int, default=os.getpid(), help="our process id as others see it")
    parser.add_argument("--python", default=sys.executable, help="an interpreter for services")
    args = parser.parse_args()
    rotation = Rotation(args.log_size, args.log_count)
    options = Options(
        args.timeout,
        args.grace,
        args.exit_budget,
        args.prefix,
        rotation,
        args.termination_log and args.termination_log.absolute(),
        args.secrets_fd,
        args.pid,
        args.python,
    )
    path = args.folder.absolute()
    try:
        folder = Folder(args.folder_fd, path) if args.folder_fd is not None else Folder.at(path)
    except OSError as error:
        sys.stderr.write(f"pai-runtime: {path} cannot be opened: {error.strerror}\n")
        return RUNTIME_ERROR
    for fd in filter(None, (args.folder_fd, args.secrets_fd)):
        os.set_inheritable(fd, False)  # noqa: FBT003 - positional only
    return supervise(folder, options)


if __name__ == "__main__":
    sys.exit(main())
