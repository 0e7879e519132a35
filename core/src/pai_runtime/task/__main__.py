"""``python -m pai_runtime.task FOLDER``: run the task whose plan is in FOLDER."""

import argparse
import sys
from pathlib import Path

from pai_runtime.task.logs import Rotation
from pai_runtime.task.supervisor import Options, supervise


def main() -> int:
    """Read the command line and supervise; the task's exit code."""
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
    parser.add_argument("--parent", type=int, help="the process that starts the task, which ends with it")
    parser.add_argument("--log-size", type=int, default=Rotation.size, help="bytes of one file of a log")
    parser.add_argument("--log-count", type=int, default=Rotation.count, help="files that are kept of a log")
    parser.add_argument(
        "--termination-log",
        type=Path,
        help="where the platform looks for why the task ended, such as /tmp/pai-termination-log",
    )
    args = parser.parse_args()
    rotation = Rotation(args.log_size, args.log_count)
    options = Options(
        args.timeout,
        args.grace,
        args.exit_budget,
        args.prefix,
        args.parent,
        rotation,
        args.termination_log and args.termination_log.absolute(),
    )
    return supervise(args.folder.absolute(), options)


if __name__ == "__main__":
    sys.exit(main())
