"""The first process of a task container, which runs what the init container has planned.

The launcher starts it with the bundle's interpreter, in the image's working directory; of the image itself it
needs nothing.
"""

from __future__ import annotations

import os
import sys

from pai_pod.entering import ENTER, enter
from pai_pod.handover import Handover, take_over
from pai_pod.launcher_environment import image_environment
from pai_task.bundle import OWN_VARIABLES
from pai_task.exit_codes import MOST_CODE, RUNTIME_ERROR
from pai_task.fast_json import dumps
from pai_task.folder import Folder
from pai_task.interpreter import hook_argv
from pai_task.launch import LaunchOptions, Rotation
from pai_task.memfd import ScratchFile
from pai_task.paths import BUNDLED_CERTIFICATES, CERTIFICATES, TASK_FOLDER, TERMINATION_LOG, TOOLS
from pai_task.record import replace
from pai_task.session_socket import listen
from pai_task.signals import STOP_SIGNALS, signal
from pai_task.supervisor.spawning import has_null, open_standard_streams
from pai_task.supervisor.supervisor import supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

RUNTIME_DIR = "PAI_RUNTIME_DIR"
"""The variable that names the task's folder if it is not at the platform's default path."""
PIPED = "piped"
"""The first argument of the launcher for a task of an engine that is tied to it by its standard input.

The task's directory and launch options follow; see `pai_task.supervisor.piped`.
"""

# What only a task needs that cannot run is imported there.
# ruff: noqa: PLC0415


def main() -> int:
    """Run the task, and return its exit code; with an argument, enter the task that runs."""
    if sys.argv[1:2] == [ENTER]:
        return enter(_task_folder(image_environment(os.environ)), sys.argv[2], sys.argv[3:])
    if sys.argv[1:2] == [PIPED]:
        return _run_piped(*sys.argv[2:])
    return _run()


def _run_piped(where: str, given: str) -> int:
    """Run a task with all of its phases, which has no init container: its secrets come by standard input."""
    from pai_task.supervisor.piped import supervise_piped

    _take_back(image_environment(os.environ))
    options = LaunchOptions.from_argument(given)
    return supervise_piped(where, replace(options, python=None, certificates=_certificates(), tools=TOOLS))


def _run() -> int:
    # Kept until the supervisor listens: the first process of a container ignores what it has no handler for.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    open_standard_streams()
    _take_back(image_environment(os.environ))
    umask = os.umask(0o022)  # logs and records are for everybody
    options = LaunchOptions(
        termination_log=TERMINATION_LOG,
        phases="rest",
        work=_working_directory(),
        umask=umask,
    )
    path = _task_folder(os.environ)
    try:
        folder = Folder.at(path)
    except OSError as error:
        sys.stderr.write(
            f"pai-runtime: {path}: {error.strerror}; expected the directory that the init container makes\n"
        )
        return RUNTIME_ERROR
    if not os.path.exists("/proc/self/fd"):
        return _cannot_run(
            folder, "/proc is not mounted in this container, and the runtime needs it", options
        )
    try:
        handover = take_over(folder)
    except FileNotFoundError:
        return _start_again(folder, options)
    except (OSError, ValueError) as error:
        return _cannot_run(folder, f"cannot read what the init container left: {error}", options)
    # Only its user can get to the directory of a local run, and may be another one in the container.
    sessions = listen(folder, 0o666 if handover.options else 0o600)
    options = replace(_with_handover(options, handover), sessions_fd=sessions)
    if not has_null():
        return _cannot_run(
            folder, "/dev/null cannot be used in this container, and the runtime needs it", options
        )
    if handover.options:
        options = _on_this_machine(options, handover.options)
    return supervise(folder, options)


def _task_folder(environment: Mapping[str, str]) -> str:
    return environment.get(RUNTIME_DIR) or TASK_FOLDER


def _take_back(environment: Mapping[str, str]) -> None:
    """Restore the environment that the image and the platform set for the task."""
    os.environ.clear()
    os.environ.update(environment)
    os.putenv("TZ", OWN_VARIABLES["TZ"])  # for the C library of this process alone


def _working_directory() -> str:
    """Return the image's working directory; ``/`` if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _with_handover(options: LaunchOptions, handover: Handover) -> LaunchOptions:
    secrets = ScratchFile()
    secrets.write(dumps(dict(handover.secrets)).encode())
    return replace(
        options,
        logs=handover.logs,
        rotation=Rotation(tai64n=handover.has_tai64n_names),
        secrets_fd=secrets.fd,
        hook_argv=hook_argv(),
        certificates=_certificates(),
        tools=TOOLS,
    )


def _certificates() -> str:
    return next(filter(os.path.exists, CERTIFICATES), BUNDLED_CERTIFICATES)


def _on_this_machine(options: LaunchOptions, given: str) -> LaunchOptions:
    """Return the options of a container that is no pod's, with those that its engine has `given`."""
    own = LaunchOptions.from_argument(given)
    null = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)
    return replace(
        options,
        timeout=own.timeout,
        variables=own.variables,
        served_at=own.served_at,
        termination_log=None,
    )


def _start_again(folder: Folder, options: LaunchOptions) -> int:
    """Handle a start without a handover: a task that has ended keeps its result, and is not run twice."""
    from pai_task.exit_record import noted, read_exit_record
    from pai_task.supervisor.recording import write_record

    record = read_exit_record(folder)
    code = record.get("exitCode")
    if type(code) is not int or not 0 <= code <= MOST_CODE:
        why = "it has been started before, or the init container did not finish"
        return _cannot_run(folder, f"the init container left nothing for this container: {why}", options)
    sys.stderr.write(
        f"pai-runtime: this task has already ended, with exit code {code}; only a new pod can run it again\n"
    )
    write_record(folder, noted(record, ""), options)
    return code


def _cannot_run(folder: Folder, message: str, options: LaunchOptions) -> int:
    from pai_task.supervisor.recording import cannot_run

    return cannot_run(folder, message, options)


if __name__ == "__main__":
    sys.exit(main())
