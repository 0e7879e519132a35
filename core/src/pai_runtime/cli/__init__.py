"""The command ``pai-runtime``. Commands map flags to calls; each imports what it needs when it runs."""

import argparse
import contextlib
import gc
import sys
from importlib import import_module
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import Any, NoReturn

from pai_runtime import __version__
from pai_runtime.document.problems import InvalidInput
from pai_runtime.terminal.output import (
    CannotWrite,
    drop_unwritten,
    flush,
    open_streams,
    report,
    report_problems,
    say,
    write_lines,
)

INVALID = 1
CANNOT_RUN = 2
"""Exit statuses: what was given is not valid; what was asked for cannot be done."""
FEWEST_FILES = 32
"""Files that this process, with what it starts, must be allowed to have open."""


def main() -> int:
    """Run the command line; its exit status."""
    gc.set_threshold(50_000)  # what is made while a job is read lives on: it need not be looked through often
    with contextlib.suppress(OSError):  # by which people find and signal it; it would be Python's
        Path("/proc/self/comm").write_text("pai-runtime", "ascii")
    open_streams()
    try:
        return _main()
    except InvalidInput as error:
        report_problems(error.problems)
        return CANNOT_RUN
    except BrokenPipeError:
        return 0  # the reader of our output has seen enough
    except CannotWrite as error:
        say(f"{error}")
        return CANNOT_RUN
    except OSError as error:
        # What a command expects to fail it tells of itself.
        where = "" if error.filename is None else f"{error.filename}: "
        say(f"cannot go on: {where}{error.strerror or error}")
        return CANNOT_RUN
    except KeyboardInterrupt:
        return 130
    finally:
        drop_unwritten()


def _main() -> int:
    if fault := _surroundings_fault():
        say(fault)
        return CANNOT_RUN
    try:
        args = _parse(sys.argv[1:])
        status: int = import_module(args.module).main(args)
        gc.freeze()  # nor at the exit, where that takes a tenth of the time of `plan`
    finally:
        flush()  # also of the help, after which the parser exits
    return status


def _surroundings_fault() -> str | None:
    """What is wrong around the program; looked at once, so that nothing else has to be ready for it."""
    most, _ = getrlimit(RLIMIT_NOFILE)
    if most < FEWEST_FILES:
        return (
            f"only {most} files may be open at once, and {FEWEST_FILES} are needed: ulimit -n {FEWEST_FILES}"
        )
    try:
        Path.cwd()
    except OSError as error:
        return f"the current folder is gone ({error.strerror}); change to one that exists"
    return None


class _Parser(argparse.ArgumentParser):
    """Its help and errors are shown as all text of others is; so are those of its commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.color = False  # Python 3.14 would put colours into the text

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002 - the signature is the base class's
        write_lines(self.format_help().removesuffix("\n").split("\n"))

    def error(self, message: str) -> NoReturn:
        report(*self.format_usage().splitlines(), f"{self.prog}: error: {message}")
        sys.exit(CANNOT_RUN)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser, commands = _parser()
    wanted = argv[0] if argv else None
    if wanted not in commands.choices and wanted != "--version":
        from pai_runtime.cli.plugin_commands import add_plugin_commands  # noqa: PLC0415 - looks for plugins

        add_plugin_commands(commands, wanted)
    return parser.parse_args(argv)


def _parser() -> tuple[argparse.ArgumentParser, Any]:
    """The parser, and what its commands are added to."""
    prog = "pai-runtime"  # given wherever argparse would otherwise make a help text to find it out
    parser: argparse.ArgumentParser = _Parser(
        prog=prog, description="The runtime of deep-learning jobs: check, plan and run a job file."
    )
    parser.add_argument("--version", action="version", version=f"pai-runtime {__version__}")
    commands = parser.add_subparsers(prog=prog, metavar="COMMAND", required=True)

    job = argparse.ArgumentParser(add_help=False)
    job.add_argument("job", type=Path, metavar="JOB", help="a job file (OpenPAI job protocol 2, YAML)")
    job.add_argument(
        "--secrets", type=Path, metavar="FILE", help="YAML file with values for the job's secrets"
    )
    policy = argparse.ArgumentParser(add_help=False)
    policy.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="a plugin policy, in force beside those of the machine and of $PAI_RUNTIME_POLICY",
    )
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print JSON")

    validate = commands.add_parser("validate", parents=[job, policy, as_json], help="check a job file")
    validate.set_defaults(module="pai_runtime.cli.validate")

    plan = commands.add_parser("plan", parents=[job, policy, as_json], help="show what each task will do")
    plan.add_argument("--task", metavar="ROLE/INDEX", help="one task only")
    plan.set_defaults(module="pai_runtime.cli.plan")

    run = commands.add_parser("run", parents=[job, policy], help="run all tasks of a job on this machine")
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the run (default: .pai-runs/<job>-<n>)"
    )
    run.add_argument("--timeout", metavar="T", help="end the tasks after this time: 90, 90s, 15m or 2h")
    run.add_argument(
        "--plain", action="store_true", help="no live view: lines as they come, also on a terminal"
    )
    run.add_argument(
        "--isolation",
        choices=["auto", "none", "required"],
        default="auto",
        help="whether what tasks write stays in their own folders (default: auto, if the kernel allows it)",
    )
    run.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable of your environment that the tasks get too; again for each",
    )
    run.add_argument(
        "--storage",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="the folder that is a storage of the cluster here; again for each",
    )
    run.add_argument(
        "--storage-config",
        type=Path,
        metavar="FILE",
        help="YAML file with such folders by the names of their storages; --storage counts more",
    )
    run.set_defaults(module="pai_runtime.cli.run")

    ps = commands.add_parser("ps", parents=[as_json], help="the runs in a folder, or the tasks of one run")
    ps.add_argument(
        "runs", nargs="?", type=Path, metavar="DIR", help="a folder of runs, or of one (default: .pai-runs)"
    )
    ps.set_defaults(module="pai_runtime.cli.ps")

    logs = commands.add_parser("logs", help="what the tasks of a run have written")
    logs.add_argument("run", type=Path, metavar="DIR", help="the folder of a run")
    logs.add_argument("task", nargs="?", metavar="ROLE/INDEX", help="one of its tasks (default: all)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the tasks have ended")
    logs.add_argument(
        "--runtime", action="store_true", help="the runtime's own log, with what its callbacks wrote"
    )
    logs.set_defaults(module="pai_runtime.cli.logs")

    explain = commands.add_parser("explain", help="who set each variable of a task that was run")
    explain.add_argument("run", type=Path, metavar="DIR", help="the folder of a run")
    explain.add_argument("task", metavar="ROLE/INDEX", help="one of its tasks")
    explain.set_defaults(module="pai_runtime.cli.explain")

    plugins = commands.add_parser("plugins", help="the installed plugins")
    kinds = plugins.add_subparsers(prog=f"{prog} plugins", metavar="COMMAND", required=True)
    kinds.add_parser("list", parents=[policy, as_json], help="all plugins, and which are allowed")
    show = kinds.add_parser("show", parents=[policy], help="a plugin's manifest and parameters")
    check = kinds.add_parser("check", parents=[policy], help="import a plugin and check all that it declares")
    digest = kinds.add_parser("digest", help="the line for the policy that fixes a distribution's code")
    for command in (show, check):
        command.add_argument("id", metavar="ID", help="a plugin's id, or its short name")
    digest.add_argument("distribution", metavar="DISTRIBUTION", help="an installed distribution")
    for name, command in kinds.choices.items():
        command.set_defaults(module="pai_runtime.cli.plugins", action=name)
    return parser, commands
