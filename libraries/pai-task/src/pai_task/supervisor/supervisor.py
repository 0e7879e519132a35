"""The supervision of one task from its plan to its exit record, with real processes, logs and secrets."""

from __future__ import annotations

from pai_task.layout import RECORD
from pai_task.own_process import keep_to_ourselves
from pai_task.plan import PlanError
from pai_task.signals import signal
from pai_task.supervisor.lifecycle import SetUp, run_init, run_task
from pai_task.supervisor.recording import cannot_go_on, cannot_run
from pai_task.supervisor.runner import TaskRunner
from pai_task.supervisor.shell import NoShell
from pai_task.supervisor.spawning import CannotStart, keep_open_files
from pai_task.supervisor.stop import Stop
from pai_task.supervisor.task import Task, read_inputs, set_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_task.folder import Folder
    from pai_task.launch import LaunchOptions
    from pai_task.plan import Plan

# What not every task needs is imported where it is.
# ruff: noqa: PLC0415


def supervise(folder: Folder, options: LaunchOptions) -> int:
    """Run the task whose ``plan.json`` is in `folder`, in its directory ``work``, and return its exit code.

    Standard input, output and error have to be open, and so has `SCRIPT_FD`, by which scripts are handed
    over.
    """
    keep_open_files()
    signal.signal(
        signal.SIGCHLD, signal.SIG_DFL
    )  # ignored, as a caller may leave it, nobody could be waited for
    stop = Stop(options.timeout, options.exit_budget, options.timeout_of)
    keep_to_ourselves()
    try:
        inputs = read_inputs(folder, options)
    except (OSError, ValueError, RecursionError, PlanError) as error:
        return cannot_run(folder, f"the plan in {folder.where} cannot be run: {error}", options)
    if options.lifeline_fd is not None:
        stop.hold_on_to(options.lifeline_fd)
    if inputs.plan.timeout:
        stop.shorten(inputs.plan.timeout)
    try:
        task = set_up(inputs, folder, stop)
    except (OSError, CannotStart) as error:
        return cannot_run(folder, f"cannot set up the task: {error}", options)
    task.journal.add("supervisorStarted", pid=task.pid, phases=options.phases)
    try:
        return _run(task)
    except (NoShell, PlanError) as error:
        task.say(f"[ERROR] {error}")
        return cannot_run(folder, task.logs.masks.mask(str(error)), options)
    except Exception as error:  # noqa: BLE001 - a fault of ours must leave a record too
        task.say(f"[ERROR] {_trace(error)}")
        message = task.logs.masks.mask(f"internal error of the runtime: {error!r}")
        return cannot_go_on(task, message)


def _trace(error: Exception) -> str:
    """Return the traceback of an error, or the error alone if `traceback` cannot be imported any more."""
    try:
        import traceback
    except ImportError:
        return repr(error)
    return "".join(traceback.format_exception(error))


def _run(task: Task) -> int:
    _load_the_end(task.plan)
    try:
        runner = TaskRunner(task)
        try:
            if task.options.phases == "init":
                return _init(task, runner)
            result, failures = run_task(task.plan, runner, task.say, _init_before(task))
            runner.linger(result, failures)
        finally:
            runner.end()
    finally:
        task.end()
    runner.record(result, failures)
    task.journal.add("ended", outcome=result.outcome, exitCode=result.code)
    return result.code


def _init_before(task: Task) -> SetUp | None:
    if task.options.phases == "all":
        return None
    from pai_task.supervisor.resuming import init_before

    return init_before(task)


def _init(task: Task, runner: TaskRunner) -> int:
    result = run_init(task.plan, runner, task.say).result
    if result:
        runner.decided(result)
    else:
        task.folder.unreserve(RECORD)
    code = result.code if result else 0
    task.journal.add("initEnded", exitCode=code)
    return code


def _load_the_end(plan: Plan) -> None:
    """Import what the end of this task needs: the task may remove our files, as on a pod's volume."""
    if plan.steps_of("analysis"):
        import pai_task.supervisor.asking
    if plan.hold or plan.services:
        import pai_task.supervisor.hold
    if plan.services:
        import pai_task.supervisor.services  # noqa: F401 - and those above
    if any(planned.service.address for planned in plan.services):
        import string  # noqa: F401 - as all of these


def load_all() -> None:
    """Import everything that `supervise` imports late, for a process that only forks supervisors."""
    import pai_task.secret_forms
    import pai_task.supervisor.asking
    import pai_task.supervisor.exec_form
    import pai_task.supervisor.hold
    import pai_task.supervisor.resuming
    import pai_task.supervisor.saving
    import pai_task.supervisor.services
    import pai_task.supervisor.sessions  # noqa: F401 - as are all of these
