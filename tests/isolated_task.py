"""One task, isolated as a local run does it: ``isolated_task.py RUN BINDS [CODE]``, the plan in ``RUN/task``.

It needs no more than the supervisor does, so that any Python and any user can run it.
"""

import json
import os
import sys
from pathlib import Path

from pai_runtime.engines.local.isolation import clean_up, make_folders
from pai_runtime.engines.local.isolation_trial import try_out
from pai_runtime.engines.local.launch import Bind, Isolated, Launch
from pai_runtime.engines.local.launcher import Launcher
from pai_task.folder import Folder
from pai_task.launch import LaunchOptions


def main() -> int:
    run = Path(sys.argv[1])
    storage = [Bind(*bind) for bind in json.loads(sys.argv[2])]
    namespaces = try_out(run / "trial").namespaces
    launcher = Launcher()
    with Folder.at(run) as opened:
        with opened.folder("task") as own:
            make_folders(own)
            code = sys.argv[3] if len(sys.argv) > 3 else ""
            isolated = Isolated(namespaces, str(run), str(run / "layers"), storage, code)
            launch = Launch(str(own.path), dict(os.environ), LaunchOptions().to_argument(), isolated=isolated)
            pid = launcher.launch(launch, own, {})
        _, status = os.waitpid(pid, 0)
        launcher.close()
        clean_up(opened, "task", "layers")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
