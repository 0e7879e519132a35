"""The hook specifications: which functions the host calls in a plugin, and when. API version 1.

The host calls one plugin at a time, separately for each use. An exception, an invalid return value, a call of
``sys.exit``, a crash or a timeout becomes one message that names the plugin, its distribution and version,
the phase and the use; the use's ``failurePolicy`` decides whether it fails the task. Raise
`pai_runtime.plugin.UserError` for errors that the user can fix; other exceptions are shown as bugs of the
plugin, with their position in its code.

A hook declares only the arguments that it needs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from pai_document.problems import Problems
from pai_document.value import Value
from pai_runtime.definitions import Definitions
from pai_runtime.plugin import PROJECT, Analysis, Contribution, Failure, InitContainer, Task, Use

if TYPE_CHECKING:
    from pai_runtime.engines.interface import Engine
    from pai_runtime.engines.profiles import Profile

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec(firstresult=True)
def pai_prerequisite(use: Use, task: Task) -> Contribution | None:
    """Return what this use adds to the plan of `task`; None if it adds nothing.

    Called while the plan is made, once for each task, and again whenever somebody views a plan, so it must
    have no side effects, and equal arguments must give an equal result. Secrets in ``use.parameters`` are
    placeholders here.

    Called in a process that only makes plans: it has no standard input, and its process group is killed once
    the plans are made. Each call, and the import, times out after a minute. The arguments are copies.
    """


@hookspec(firstresult=True)
def pai_definitions(
    job: Path | None, lock: Path | None, secrets: Mapping[str, Value], refusal: Callable[[str], str | None]
) -> Definitions | None:
    """Return the shared definitions that a job may require; None if the plugin finds none.

    Called once, for a job that requires one.

    `job` is the job file, to which paths are relative, and beside which a lock file may stand; None in a pod,
    where nothing may wait for a network. `lock` is the lock file that was handed to the pod. `secrets` are
    those of the job, with their values. `refusal` returns why the policies in force refuse what is at a
    location (a URL, or the absolute path of a file or directory); None if they allow it.

    Called in the process of the command. Raises `pai_runtime.plugin.job_format.InvalidInput` for an invalid
    configuration.
    """


@hookspec(firstresult=True)
def pai_read_job(document: Value, problems: Problems) -> Value:
    """Return the job in `document`, which is in the plugin's format, as one of protocol version 2.

    Called for a job file without ``protocolVersion`` that fits ``jobFormat`` in the plugin's manifest, before
    anything else is known of the job, in a process that makes nothing else: as for `pai_prerequisite`, equal
    arguments must give an equal result, and it times out after a minute. The arguments are copies.

    A value of the result stands where the one does that it was made of. What was decided, or has no effect,
    is reported in `problems` as notes and warnings. For a job that is invalid, raise `InvalidInput`, such as
    by ``problems.check()``. These types are in `pai_runtime.plugin.job_format`.
    """
    raise NotImplementedError


@hookspec
def pai_check_job(document: Value, problems: Problems) -> None:
    """Report in `problems` what a platform would refuse in the job, with the form that it accepts.

    Called for ``pai-runtime validate --for PLATFORM``, which is the last part of the plugin's id, in the
    process of that command. Nothing is known of the document but that it is YAML; what is wrong with it on
    any platform is reported without the plugin. These types are in `pai_runtime.plugin.job_format`.
    """


@hookspec(firstresult=True)
def pai_engine(profile: "Profile") -> "Engine | None":
    """Return the engine that a profile describes, without contacting anything; None if there is none.

    The ``engine`` of the profile is that of the plugin's manifest; its other fields are for the engine to
    check. Called in the process of the command, if ``--on`` names the profile. These types are in
    `pai_runtime.engine`. Raises `InvalidInput` for a profile that is wrong.
    """


@hookspec
def pai_init(use: Use, task: Task) -> None:
    """Prepare what the task needs, before it starts: clone a repository, create keys.

    Called in a process of its own, in the init container on a cluster, before any start step of the task.
    Must write only below ``task.folder``. Secrets in ``use.parameters`` have their values.
    """


@hookspec
def pai_init_container(container: InitContainer) -> None:
    """Run a step of the cluster's own in the init container, for every job, whatever the job names.

    Called for each entry without a ``command`` in the cluster's list of init plugins that names the plugin,
    in the order of that list, and only in a pod. It runs in the process of ``pai-runtime init``, with its
    rights and no time limit; its output goes to ``init.log``. An exception ends that process with exit code
    1, and so fails the pod. After a crash it runs again, over what it has left.
    """


@hookspec
def pai_task_starts(use: Use, task: Task) -> None:
    """Run Python in the task's container before the command.

    It runs after the use's own scripts and the start of its services, in a process of its own, with the
    environment of the steps. Most plugins do not need it, since a `Contribution` carries shell scripts for
    each event.
    """


@hookspec(firstresult=True)
def pai_analyze(use: Use, task: Task, failure: Failure) -> Analysis | None:
    """Explain why a task failed; None if unknown. The first plugin that returns an analysis decides.

    Called in a process of its own after a setup or a command that failed or timed out, before the task is
    held and before the exit callbacks. It times out after a minute, or after half of the time for the exit
    callbacks once the task is told to stop; then the failure stays unexplained.
    """


@hookspec
def pai_task_succeeds(use: Use, task: Task, record: Mapping[str, Any]) -> None:
    """Run Python in the task's container after a command that ended with exit code 0.

    It runs after the use's own scripts for that event, in a process of its own, with the environment of the
    steps. `record` is the exit record so far, as in the reference: masked, and of at most 4 KB.
    """


@hookspec
def pai_task_fails(use: Use, task: Task, record: Mapping[str, Any]) -> None:
    """Run Python in the task's container after a setup or a command that failed.

    A command that timed out has failed too. It runs in a process of its own, with the environment of the
    steps. `record` is as for `pai_task_succeeds`; what explains the failure is in it.
    """


@hookspec
def pai_task_exits(use: Use, task: Task, record: Mapping[str, Any]) -> None:
    """Run Python in the task's container at the end of the task, however it ended.

    It runs after the hooks and scripts for success or failure, in a process of its own, with the environment
    of the steps. It runs for a task that is cancelled or times out too. `record` is as for
    `pai_task_succeeds`.
    """


@hookspec
def pai_run_ends(use: Use, task: Task, record: Mapping[str, Any], has_succeeded: bool) -> None:  # noqa: FBT001 - by name
    """Tell others that the run has succeeded or failed; it is not called for a cancelled one.

    `task` is the one that failed the run, after its last attempt; after success, the first task of the first
    role that has the use, or in an array of Slurm the one whose end decided the job. `record` is its exit
    record. The hook is called once, in a process of its own beside the run supervisor, which ends all such
    hooks after a minute; their output and their failures are told where the run is followed.
    ``task.folder`` need not exist there.

    Where the platform itself decides about a run, as on Kubernetes and OpenPAI, tasks call it at their own
    end, at each attempt: the first task if it succeeded, and each that failed on its own. If one failure ends
    all tasks, the first task of each other role first waits 3 seconds, all others 6; a task that is ended
    meanwhile does not call it.
    """
