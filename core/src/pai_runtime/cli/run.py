"""``pai-runtime run``: runs all tasks of a job, on this machine unless ``--on`` names an engine profile."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pai_document.amounts import counted
from pai_document.problems import InvalidInput, Problems
from pai_runtime.cli.arguments import (
    add_code,
    add_debug,
    add_job,
    add_on,
    add_policy,
    task_or_role,
    time_span,
)
from pai_runtime.cli.chosen_tasks import NoSuchTask
from pai_runtime.cli.detaching import LetGo, Unseen, in_own_session
from pai_runtime.cli.engine_job import EngineJob
from pai_runtime.cli.given_run import given_engine, refusal
from pai_runtime.cli.overrides import add_overrides
from pai_runtime.cli.reporting import begin_report
from pai_runtime.engines.code import check_code
from pai_runtime.engines.finding import is_within, open_engine_within
from pai_runtime.engines.interface import Engine, Option
from pai_runtime.host.host import Host
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.runs.errors import CannotRun, ClusterError, MayBeLeft
from pai_runtime.runs.interrupts import stop_signals
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.summary import summarise
from pai_runtime.terminal.following import follow
from pai_runtime.terminal.live_view import LiveView
from pai_runtime.terminal.output import CannotWrite, flush, report_problems, say, write_lines
from pai_runtime.terminal.summary import summary_lines
from pai_runtime.terminal.view import PlainView, can_be_live
from pai_runtime.terminal.words import command_for, command_on, short_path
from pai_task.exit_codes import CANNOT_RUN, INTERRUPTED
from pai_task.masking import SHORTEST
from pai_task.secret_forms import is_too_short

_NOTHING: Final = "nothing was started"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_job(parser)
    add_overrides(parser)
    add_policy(parser)
    add_on(parser, "submit the job to the cluster of this engine profile (engines.yaml), and follow it")
    _add_container(parser)
    parser.add_argument(
        "--detach", action="store_true", help="print the name of the run, and let it go on without you"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="directory of the run (default: .pai-runs/<job>-<n>); "
        "with --on, for what is read of it while it is followed",
    )
    add_code(parser)
    parser.add_argument(
        "--task",
        type=task_or_role,
        action="append",
        default=[],
        metavar="ROLE[/INDEX]",
        help="run only this task, or the tasks of this role; repeatable",
    )
    parser.add_argument(
        "--timeout",
        type=time_span,
        metavar="T",
        help="stop the tasks after this time, such as 90, 90s, 15m or 2h",
    )
    parser.add_argument(
        "--strict-callbacks",
        action="store_true",
        help="let a callback that fails after the command fail its task, as extras.strictCallbacks does",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check the job, its plans and what it needs of this machine, or the cluster, without running it",
    )
    parser.add_argument(
        "--no-report",
        action="store_true",
        help="make no report when the run has ended, as is done for one of a minute or more",
    )
    add_debug(parser)
    parser.add_argument(
        "--plain", action="store_true", help="print plain lines instead of the live view, even on a terminal"
    )


def _add_container(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--container",
        choices=("auto", "podman", "docker"),
        help="run each task on this machine in a container of its image, by this program (auto: the first "
        "that is installed)",
    )


def add_engine_options(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Add the options of the engine without ``--on``, and of the one that a command line names.

    The command has the engine, so that it is opened once. Raises `InvalidInput`.
    """
    usual = given_engine(None)
    named, host = _named_engine(argv)
    engine = named or usual
    options = {option.name: option for option in (*usual.options, *engine.options)}
    for option in options.values():
        _add_option(parser, option)
    parser.set_defaults(engine=engine, engine_options=tuple(options.values()), host=host)


def _named_engine(argv: Sequence[str]) -> tuple[Engine | None, Host | None]:
    """Return the engine that a command line names, or the allocation around us means, with its host."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_on(first, "")
    _add_container(first)
    add_policy(first)
    try:
        args, _ = first.parse_known_args(argv)
    except argparse.ArgumentError:
        return None, None  # the parser itself says what is wrong
    is_named = args.on is not None or args.container is not None
    if not (is_named or is_within()):
        return None, None
    host = given_host(args.policy)
    if not is_named:
        return open_engine_within(host), host
    return given_engine(args.on, host, None if args.on else args.container), host


def _add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    more: dict[str, Any] = {"help": option.help.replace("%", "%%")}
    if option.metavar or option.choices:
        more |= {"metavar": option.metavar or None, "choices": option.choices or None, "type": option.parse}
        more |= {"action": "append", "default": []} if option.repeatable else {}
    else:
        more["action"] = "store_true"
    parser.add_argument(f"--{option.name}", dest=_destination(option), **more)


def _destination(option: Option) -> str:
    return f"option {option.name}"


def main(args: argparse.Namespace) -> int:
    """Return the job's exit status; 2 if it cannot be run or followed; 0 if a ``--dry-run`` succeeds."""
    engine: Engine = args.engine
    options = {
        option.name: value for option in args.engine_options if (value := vars(args)[_destination(option)])
    }
    asked = options.pop("env", ())
    args.variables = dict(text.split("=", 1) for text in asked if "=" in text)
    if names := [text for text in asked if "=" not in text]:  # their values are those of this machine
        options["env"] = names
    if reasons := list(_refusals(engine, args, options)):
        for reason in reasons:
            say(reason)
        say(_NOTHING)
        return CANNOT_RUN
    if args.detach and not (args.dry_run or engine.runs_go_on):
        return in_own_session(partial(_run, args, engine, options))
    return _run(args, engine, options, None)


def _run(args: argparse.Namespace, engine: Engine, options: Mapping[str, Any], let_go: LetGo | None) -> int:
    is_live = not (args.plain or args.detach) and can_be_live()
    prints_output = engine.prints_output and not (is_live or args.detach)
    try:
        job = _job(args, engine, options, prints_output=prints_output)
        if job is None:
            return 0
        reader = _submitted(job, args.on)
    except MayBeLeft as error:
        say(f"{error}")
        return INTERRUPTED if error.interrupted else CANNOT_RUN
    except InvalidInput as error:
        report_problems(error.problems, frames=args.debug)
        say(_NOTHING)
        return CANNOT_RUN
    except (CannotRun, NoSuchTask, ClusterError) as error:
        say(f"{error}; {_NOTHING}")
        return CANNOT_RUN
    if args.detach:
        return _detached(reader, let_go, reports=not args.no_report)
    view = LiveView(reader) if is_live else PlainView(reader, shows_output=not prints_output)
    return _followed(job.job.name, reader, view, reports=not args.no_report)


def _refusals(engine: Engine, args: argparse.Namespace, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield a reason for each option that was given and that the engine does not have."""
    if args.on and args.container:
        yield f"--container cannot be used with --on: tasks run in containers on {args.on} anyway"
    own = {option.name for option in engine.options}
    given = [name for name in ("detach", "out", "code", "task", "timeout") if getattr(args, name)]
    for name in (*given, *options):
        if reason := refusal(engine, f"--{name}", args.on):
            yield reason
        elif name in options and name not in own:
            where = args.on or "this machine"
            yield f"--{name} cannot be used on {where}: its engine has no such option"


def _job(
    args: argparse.Namespace, engine: Engine, options: Mapping[str, Any], *, prints_output: bool
) -> EngineJob | None:
    """Return the job after checking that this engine can run it; None after a dry run.

    Raises `InvalidInput`, `NoSuchTask`, `CannotRun`, `ClusterError`.
    """
    problems = Problems()
    job = EngineJob(
        args.job, args, engine, problems, options=options, tasks=args.task, prints_output=prints_output
    )
    try:
        for note in check_code(job.code) if job.code else ():
            say(f"note: {note}")
        job.run.check(job.plans, problems)
        problems.check()
        report_problems(problems.in_order, frames=args.debug)
        if not args.dry_run:
            for text in _beforehand(job, args.task):
                say(text)
            return job
    except BaseException:
        job.run.discard()
        raise
    job.run.discard()
    where = f" on {args.on}" if args.on else ""
    say(f"{job.job.name} can be run{where}, with {counted(len(job.plans), 'task', 'tasks')}; {_NOTHING}")
    return None


def _beforehand(job: EngineJob, only: Sequence[tuple[str, int | None]]) -> Iterator[str]:
    for name in sorted(name for name, value in job.secrets.items() if value and is_too_short(value)):
        yield f"the secret '{name}' is shorter than {SHORTEST} bytes and cannot be masked in logs"
    if only:
        names = ", ".join(role if index is None else f"{role}/{index}" for role, index in only)
        yield f"note: only {names} will run; what waits for other tasks waits in vain"
        yield "note: completion policies count only the tasks that run"


def _submitted(job: EngineJob, on: str | None) -> RunReader:
    try:
        with stop_signals(_interrupt):
            return job.run.submit(job.plans, job.secrets)
    except ClusterError as error:
        lists = f"{command_on(on or '', 'ps')} lists the runs"
        raise MayBeLeft(f"{error}; a run may have been started: {lists}", interrupted=False) from error
    except BaseException:
        job.run.discard()
        raise


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt for any stop signal, so that an engine leaves nothing half made."""
    raise KeyboardInterrupt


def _detached(reader: RunReader, let_go: LetGo | None, *, reports: bool) -> int:
    """Print the name of the run alone to standard output, for scripts; carry it on if it needs that."""
    say(f"to follow it: {command_for(reader, 'logs', '-f')}; to stop it: {command_for(reader, 'stop')}")
    try:
        write_lines([reader.named])
        flush()
    except (CannotWrite, BrokenPipeError):
        if let_go is None:
            raise
        # The terminal is gone: that is what the run is to outlive.
    if let_go is None:
        return 0
    run, status = follow(reader, Unseen(let_go))
    if reports:
        begin_report(reader, run)
    return status


def _followed(job: str, reader: RunReader, view: LiveView | PlainView, *, reports: bool) -> int:
    where = f"in {short_path(reader.folder)}" if reader.folder else f"on {reader.on} as {reader.named}"
    view.say(f"running {job} {where}{'; Ctrl-C leaves it running' if reader.goes_on else ''}")
    try:
        run, status = follow(reader, view)
    except ClusterError as error:
        say(f"{error}; the run goes on: {command_for(reader, 'ps')}")
        return CANNOT_RUN
    lines = [*summary_lines(reader, summarise(reader, run))] if run.over else []
    if missing := view.missing_output():
        lines.append(missing)
    if reports and (report := begin_report(reader, run)):
        lines.append(f"report: {short_path(report)}")
    if lines:
        view.tell(lines)
    return status
