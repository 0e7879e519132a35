"""One task, isolated as a local run does it: ``isolated_task.py RUN BINDS``, with a plan in ``RUN/task``.

It needs no more than the supervisor does, so that any Python and any user can run it.
"""

import json
import os
import sys
from pathlib import Path

from pai_runtime.engines.local.isolation import Bind, Isolated, Isolation, clean_up, make_folders
from pai_runtime.engines.local.isolation_trial import try_out
from pai_runtime.engines.local.process import Launch, launch
from pai_runtime.engines.local.runtime_copy import RuntimeCopy
from pai_runtime.supervisor.supervisor import Options, cannot_run
from pai_runtime.task.folder import Folder


def main() -> int:
    run = Path(sys.argv[1])
    storage = [Bind(*bind) for bind in json.loads(sys.argv[2])]
    namespaces = try_out(run / "trial").namespaces
    with Folder.at(run) as opened:
        with opened.folder("task") as own:
            make_folders(own)
            copy = RuntimeCopy(own.path / "runtime")
            isolation = Isolation(run, own.path, run / "layers", Isolated(namespaces, storage, copy.binds))
            pid = launch(
                Launch(
                    argv=copy.argv("pai_runtime.supervisor.__main__", str(own.path)),
                    environment=dict(os.environ),
                    fds={"--folder-fd=": own.fd},
                    pid="--pid=",
                    silent=False,
                    namespaces=namespaces,
                    prepare=isolation.enter,
                    fail=lambda error: cannot_run(own, f"cannot be isolated: {error}", Options()),
                )
            )
        _, status = os.waitpid(pid, 0)
        clean_up(opened, "task", "layers")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
