"""The hook specifications: what the host asks a plugin, and when. API version 1.

The host calls one plugin at a time, separately for each use. An exception, a wrong return value, a
call of ``sys.exit``, a crash or no answer in time becomes one message that names the plugin, its distribution
and version, the phase and the use; the use's ``failurePolicy`` says whether it fails the task. Raise
`pai_runtime.plugin.UserError` for what the user has to know; other exceptions are shown as mistakes of the
plugin, with their place in its code.

A hook names the arguments that it needs, and may leave out the others.
"""

import pluggy

from pai_runtime.plugin import PROJECT, Analysis, Contribution, Failure, Task, Use

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec(firstresult=True)
def pai_prerequisite(use: Use, task: Task) -> Contribution | None:
    """What this use adds to the plan of `task`; None for nothing.

    Called while the plan is made, once for each task, and again whenever somebody only looks at a plan. So
    it has no side effects, and the same arguments give an equal answer. Secrets in ``use.parameters`` are
    placeholders here.

    Called in a process that makes plans only: it has no standard input, and is killed with all of its group
    when the plans are made. Each call has a minute, and so has the import. The arguments are copies.
    """


@hookspec
def pai_init(use: Use, task: Task) -> None:
    """Work before the task: clone a repository, make keys.

    Called in a process of its own, in the init container on a cluster, before any start step of the task.
    Writes only below ``task.folder``. Secrets in ``use.parameters`` have their values.
    """


@hookspec
def pai_task_starts(use: Use, task: Task) -> None:
    """Python that must run in the task's container before the command.

    It runs after the use's own scripts, and when its services have been started, in a process of its own,
    with the environment of the steps. Most plugins do not need it, since a `Contribution` carries shell
    scripts for each event.
    """


@hookspec(firstresult=True)
def pai_analyze(use: Use, task: Task, failure: Failure) -> Analysis | None:
    """Why a task failed; None if that is not known. Of several plugins the first that knows counts.

    Called in a process of its own after a setup or a command that failed, or was ended by the time limit,
    before the task is held and before the exit callbacks. Without an answer within a minute, or within half
    of the time for the exit callbacks once the task is told to stop, the task is left unexplained.
    """


@hookspec
def pai_task_succeeds(use: Use, task: Task) -> None:
    """Python that must run in the task's container after a command that ended with exit code 0.

    It runs after the use's own scripts for that event, in a process of its own, with the environment of the
    steps.
    """


@hookspec
def pai_task_fails(use: Use, task: Task) -> None:
    """Python that must run in the task's container after a setup or a command that failed.

    A command that was ended by the time limit has failed too. It runs in a process of its own, with the
    environment of the steps.
    """


@hookspec
def pai_task_exits(use: Use, task: Task) -> None:
    """Python that must run in the task's container at its end, however it ended.

    It runs after the hooks and scripts for success or failure, in a process of its own, with the environment
    of the steps. A task that is told to stop, or runs out of time, has it too.
    """
