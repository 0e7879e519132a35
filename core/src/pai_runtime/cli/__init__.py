"""The command ``pai-runtime``. Each of its commands is a module here, imported when it runs.

Such a module has ``add_arguments(parser)`` and ``main(args)``, which returns the exit status.
"""

import argparse
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_NOFILE, getrlimit
from typing import Any, NoReturn

from pai_runtime import __version__
from pai_runtime.document.problems import InvalidInput
from pai_runtime.host.core_imports import core_imports_only
from pai_runtime.runs.errors import ClusterError
from pai_runtime.task.exit_codes import CANNOT_RUN, INTERRUPTED
from pai_runtime.task.own_process import keep_to_ourselves
from pai_runtime.terminal.output import (
    CannotWrite,
    columns,
    drop_unwritten,
    flush,
    open_streams,
    report,
    report_problems,
    say,
    write_lines,
)

COMMANDS = {
    "validate": "check a job file",
    "plan": "show what each task will do",
    "run": "run all tasks of a job, on this machine or a cluster",
    "render": "show what a job is on a cluster, for kubectl and GitOps",
    "ps": "list the runs in a directory, or the tasks of one run",
    "logs": "show the logs of the tasks of a run",
    "exec": "run a program, such as a shell, in a task that is running or held",
    "stop": "cancel runs",
    "rerun": "run the job of a run again, with changes",
    "diff": "show what differs between two runs",
    "rm": "remove runs that have ended",
    "prune": "remove runs that ended some time ago",
    "explain": "show where each environment variable of a task comes from",
    "plugins": "list, show and check the installed plugins",
}
"""The names of the commands and their summaries, so that help is shown without importing a command."""

_MOST_DIGITS = 4
"""Maximum digits of a terminal's width, which anybody may have set to anything."""
_WIDTH = 80
FEWEST_FILES = 32
"""Minimum limit of open files for this process and those that it starts."""
LEAST_MEMORY = 131_072
"""Minimum limit of virtual memory, in kB, for each of these processes."""


def main() -> int:
    """Run the command line, and return its exit status."""
    gc.set_threshold(50_000)  # what is made while a job is read lives on: it need not be looked through often
    with contextlib.suppress(OSError):  # by which people find and signal it; it would be Python's
        Path("/proc/self/comm").write_text("pai-runtime", "ascii")
    keep_to_ourselves()  # before any secret is read
    # Ignored, as a caller may leave it, no child can be waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    open_streams()
    try:
        if "--print-logs" not in sys.argv:  # see `console_script`
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        with core_imports_only():
            return _main()
    except InvalidInput as error:
        report_problems(error.problems)
        return CANNOT_RUN
    except BrokenPipeError:
        return 0  # the reader of our output has seen enough
    except (CannotWrite, ClusterError) as error:
        say(f"{error}")
        return CANNOT_RUN
    except OSError as error:
        # What a command expects to fail it tells of itself.
        where = "" if error.filename is None else f"{error.filename}: "
        say(f"cannot continue: {where}{error.strerror or error}")
        return CANNOT_RUN
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        drop_unwritten()


def _main() -> int:
    if fault := _surroundings_fault():
        say(fault)
        return CANNOT_RUN
    try:
        args = _sidecar(sys.argv[1:]) or _parse(sys.argv[1:])
        status: int = import_module(args.module).main(args)
        gc.freeze()  # nor at the exit, where that takes a tenth of the time of `plan`
    finally:
        flush()  # also of the help, after which the parser exits
    return status


def _sidecar(argv: list[str]) -> argparse.Namespace | None:
    """Return the arguments of a pod's sidecar, None for any other command.

    It has a tenth of a processor, so it looks for no plugins: init has, before it, and under the policy.
    """
    is_there = argv == ["init", "--print-logs"] and find_spec("pai_pod")
    return argparse.Namespace(module="pai_pod.sidecar") if is_there else None


def _surroundings_fault() -> str | None:
    """Return what is wrong with limits or working directory, checked once for all commands, or None."""
    most, _ = getrlimit(RLIMIT_NOFILE)
    if most < FEWEST_FILES:
        return (
            f"the limit of open files is {most}; at least {FEWEST_FILES} are needed: ulimit -n {FEWEST_FILES}"
        )
    memory, _ = getrlimit(RLIMIT_AS)
    if memory != RLIM_INFINITY and memory < LEAST_MEMORY * 1024:
        return (
            f"the limit of virtual memory is {memory // 1024} kB; "
            f"at least {LEAST_MEMORY} are needed: ulimit -v {LEAST_MEMORY}"
        )
    try:
        Path.cwd()
    except OSError as error:
        return f"the current directory no longer exists ({error.strerror}); change to another one"
    return None


class _Parser(argparse.ArgumentParser):
    """A parser that prints help and errors through `terminal.output`, for its commands too."""

    def __init__(self, **options: Any) -> None:
        # Else argparse asks shutil for the width, for each option that it is told of.
        told = os.environ.get("COLUMNS", "").strip()
        width = (int(told) if told.isdecimal() and len(told) <= _MOST_DIGITS else 0) or columns() or _WIDTH
        super().__init__(formatter_class=partial(argparse.HelpFormatter, width=width - 2), **options)
        self._is_intermixed = False
        self.color = False  # Python 3.14 would put colours into the text

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if self._is_intermixed:
            return super().parse_known_args(args, namespace)
        # argparse has the outermost parser refuse what a command does not know, with that parser's usage.
        known, unknown = self._parse_intermixed(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def _parse_intermixed(self, args: Any, namespace: Any) -> tuple[Any, list[str]]:
        """Parse options between arguments too (``logs RUN --tail 5 worker/0``), unless all is passed on."""
        if any(each.nargs in (argparse.PARSER, argparse.REMAINDER) for each in self._actions):
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True  # meanwhile argparse may call our own method, for parts of the arguments
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002 - the signature is the base class's
        write_lines(self.format_help().removesuffix("\n").split("\n"))

    def error(self, message: str) -> NoReturn:
        report(*self.format_usage().splitlines(), f"{self.prog}: error: {message}")
        sys.exit(CANNOT_RUN)


def _parse(argv: list[str]) -> argparse.Namespace:
    wanted = argv[0] if argv else None
    parser, commands = make_parser([wanted] if wanted in COMMANDS else [])
    if wanted == "run":
        import_module(f"{__name__}.run").add_engine_options(commands.choices[wanted], argv[1:])
    if wanted not in COMMANDS and wanted != "--version":
        from pai_runtime.cli.plugin_commands import (  # noqa: PLC0415 - looks for plugins
            DISTRIBUTIONS,
            add_plugin_commands,
        )

        add_plugin_commands(commands, wanted)
        if wanted in DISTRIBUTIONS and wanted not in commands.choices:
            brings = f"the command {wanted} comes with the distribution {DISTRIBUTIONS[wanted]}"
            parser.error(f"{brings}, which is not installed here, or which the policy refuses")
    return parser.parse_args(argv)


def make_parser(wanted: Iterable[str]) -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser and its commands; commands that are not `wanted` have no arguments yet."""
    prog = "pai-runtime"  # given wherever argparse would otherwise make a help text to find it out
    parser: argparse.ArgumentParser = _Parser(
        prog=prog, description="The runtime of deep-learning jobs: check, plan and run a job file."
    )
    parser.add_argument("--version", action="version", version=f"pai-runtime {__version__}")
    commands = parser.add_subparsers(prog=prog, metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in wanted:
            module = import_module(f"{__name__}.{name}")
            module.add_arguments(command)
            command.set_defaults(module=module.__name__)
    return parser, commands
