"""Execution of the init steps of a plan by a supervisor in a process of its own, whose state it changes."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from pai_pod.errors import InitFailed
from pai_pod.steps import Pod
from pai_pod.stopping import Stopped, end
from pai_task.exit_codes import INIT_FAILED, RUNTIME_ERROR
from pai_task.folder import Folder
from pai_task.interpreter import hook_argv
from pai_task.launch import LaunchOptions
from pai_task.memfd import ScratchFile, hand_over_script
from pai_task.signals import STOP_SIGNALS
from pai_task.supervisor.supervisor import supervise


def run_init_steps(pod: Pod, secrets: Mapping[str, str], work: Path | None) -> None:
    """Run the init steps, in the directory `work` if there is none for the task.

    A failed step ends the task, which its own container then records. Raises `InitFailed` if the steps could
    not be run.
    """
    values = ScratchFile()
    values.write(json.dumps(dict(secrets)).encode())
    options = LaunchOptions(
        phases="init",
        logs=str(pod.directories.logs),
        secrets_fd=values.fd,
        hook_argv=hook_argv(),
        work=None if work is None else str(work),
    )
    # Blocked until the supervisor listens for them itself.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    pid = os.fork()
    if pid == 0:
        _supervise(str(pod.directories.runtime), options)
    values.close()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except Stopped as stopped:
        end(pid, stopped.number, group=False)
        raise
    finally:
        pod.log.pass_on()
    if code < 0 or code == RUNTIME_ERROR:
        raise InitFailed(INIT_FAILED, "the init steps of the plan could not be run; see runtime.log")
    if code:
        pod.log.say(
            "[ERROR] an init step has failed, and so the task will fail when it starts; see runtime.log"
        )


def _supervise(folder: str, options: LaunchOptions) -> None:
    """Run the supervisor in the child process; never return into the code of init."""
    code = RUNTIME_ERROR
    try:
        hand_over_script(b"")
        code = supervise(Folder.at(folder, follow=False), options)
    except BaseException:  # noqa: BLE001 - see above
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
