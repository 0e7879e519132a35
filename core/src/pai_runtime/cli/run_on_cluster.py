"""``pai-runtime run --on``: submits a job to a cluster, and follows it."""

import argparse

from pai_runtime.cli.beforehand import refused, short_secrets
from pai_runtime.cli.cluster_job import ClusterJob
from pai_runtime.cli.given_cluster import given_cluster
from pai_runtime.document.amounts import counted
from pai_runtime.document.problems import InvalidInput, Problems
from pai_runtime.engines.cluster import Cluster, ClusterError
from pai_runtime.engines.code import check_code
from pai_runtime.engines.local.run_folder import RunFolder
from pai_runtime.job.secrets import secret_values
from pai_runtime.runs.errors import CannotRun, MayBeLeft
from pai_runtime.runs.summary import summarise
from pai_runtime.task.exit_codes import CANNOT_RUN, INTERRUPTED
from pai_runtime.terminal.output import report_problems, say, write_lines
from pai_runtime.terminal.summary import summary_lines
from pai_runtime.terminal.view import choose_view
from pai_runtime.terminal.words import command_for

_NOT_THERE = {
    "share": "what is kept of a run on a cluster is for its user alone",
    "task": "all tasks of a job run; for fewer of them, use --role-instances",
    "timeout": "limit the command itself, such as: timeout 2h COMMAND",
    "isolation": "each task has a container of its own",
    "env": "give values by --set, or as secrets of the job",
    "storage": "the storages of a cluster are in its engine profile",
    "storage_config": "the storages of a cluster are in its engine profile",
}
"""Options for local runs only, with what to use instead."""


def run_on_cluster(args: argparse.Namespace) -> int:
    """Return the job's exit status; 130 after Ctrl-C; 2 if it cannot be submitted, or not be followed."""
    if not_there := [name for name in _NOT_THERE if getattr(args, name)]:
        for name in not_there:
            say(f"--{name.replace('_', '-')} cannot be combined with --on: {_NOT_THERE[name]}")
        say("nothing was submitted")
        return CANNOT_RUN
    try:
        cluster = given_cluster(args.on, args.policy)
        job = _checked(args, cluster)
        if args.dry_run:
            tasks = counted(len(job.plans), "task", "tasks")
            say(f"{job.job.name} can be run on {args.on}, with {tasks}; nothing was submitted")
            return 0
        folder = RunFolder(job.job, args.out) if args.out is not None else None
        try:
            name = job.run.submit(job.plans, secret_values(job.job.secrets))
        except BaseException:
            if folder is not None:
                folder.discard()
            raise
    except MayBeLeft as error:
        say(f"{error}")
        return INTERRUPTED if error.interrupted else CANNOT_RUN
    except (InvalidInput, CannotRun, ClusterError) as error:
        return refused(error, "nothing was submitted")
    return _detached(cluster, name) if args.detach else _followed(args, cluster, job.job.name, name)


def _checked(args: argparse.Namespace, cluster: Cluster) -> ClusterJob:
    """Return the job after checking that this cluster can run it.

    Raises `InvalidInput`, `CannotRun`, `ClusterError`.
    """
    problems = Problems()
    job = ClusterJob(args.job, args, cluster, problems)
    job.run.check(job.plans, problems)
    problems.check()
    report_problems(problems.in_order)
    for note in check_code(job.code) if job.code else ():
        say(f"note: {note}")
    for text in short_secrets(secret_values(job.job.secrets)):
        say(text)
    return job


def _detached(cluster: Cluster, name: str) -> int:
    """Print the name of the run alone to standard output, for scripts."""
    reader = cluster.open_run(name)
    say(f"to follow it: {command_for(reader, 'logs', '-f')}; to stop it: {command_for(reader, 'stop')}")
    write_lines([name])
    return 0


def _followed(args: argparse.Namespace, cluster: Cluster, job: str, name: str) -> int:
    reader = cluster.open_run(name)
    view = choose_view(reader, plain=args.plain)
    view.say(f"running {job} on {args.on} as {name}; Ctrl-C leaves it running")
    try:
        run, status = reader.follow(view, args.out)
    except ClusterError as error:
        say(f"{error}; the run goes on: {command_for(reader, 'ps')}")
        return CANNOT_RUN
    for text in summary_lines(reader, summarise(reader, run)) if run.over else ():
        view.say(text)
    if missing := view.missing_output():
        view.say(missing)
    return status
