"""The command ``pai-runtime``. Each of its commands is a module here, imported when it runs.

Such a module has ``add_arguments(parser)`` and ``main(args)``, which returns the exit status.
"""

import argparse
import contextlib
import gc
import signal
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_NOFILE, getrlimit
from typing import Any

from pai_document.problems import InvalidInput
from pai_runtime import __version__
from pai_runtime.cli.help import BuiltIn, example, overview
from pai_runtime.cli.parser import Parser, hint
from pai_runtime.host.core_imports import core_imports_only
from pai_runtime.runs.errors import ClusterError
from pai_runtime.terminal.output import (
    CannotWrite,
    drop_unwritten,
    flush,
    open_streams,
    report_problems,
    say,
)
from pai_task.exit_codes import CANNOT_RUN, INTERRUPTED
from pai_task.own_process import keep_to_ourselves

COMMANDS = {
    "validate": BuiltIn("write", "check a job file", "validate job.yaml"),
    "plan": BuiltIn("write", "show what each task will do", "plan job.yaml"),
    "run": BuiltIn(
        "run", "run all tasks of a job, on this machine or a cluster", "run job.yaml --set lr=0.1"
    ),
    "exec": BuiltIn(
        "run", "run a program, such as a shell, in a task that is running or held", "exec latest worker/0"
    ),
    "stop": BuiltIn("run", "cancel runs", "stop latest"),
    "rerun": BuiltIn("run", "run the job of a run again, with changes", "rerun latest --set lr=0.01"),
    "render": BuiltIn(
        "run", "show what a job is on a cluster, for kubectl and GitOps", "render job.yaml --on lab"
    ),
    "ps": BuiltIn("look", "list runs, or the tasks of one run", "ps latest"),
    "logs": BuiltIn("look", "show the logs of the tasks of a run", "logs latest worker/0 --follow"),
    "variables": BuiltIn(
        "look", "show where each environment variable of a task comes from", "variables latest worker/0"
    ),
    "rm": BuiltIn("clean", "remove runs that have ended", "rm train-3"),
    "prune": BuiltIn("clean", "remove runs that ended some time ago", "prune --older-than 7d --dry-run"),
    "plugins": BuiltIn("operate", "list, show and check the installed plugins", "plugins show cmd"),
}
"""The commands by their names, so that help is shown without importing one."""

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


def _parse(argv: list[str]) -> argparse.Namespace:
    for words in (["plugins", "new"], ["plugins", "verify"], ["engines", "add", *argv[2:3]]):
        if argv[: len(words)] == words:  # a plugin brings it, and it is one command for all that follows
            argv = [" ".join(words), *argv[len(words) :]]
    wanted = argv[0] if argv else None
    parser, commands = make_parser([wanted] if wanted in COMMANDS else [], argv[1:])
    if wanted not in COMMANDS and wanted != "--version":
        from pai_runtime.cli.plugin_commands import (  # noqa: PLC0415 - looks for plugins
            DISTRIBUTIONS,
            add_plugin_commands,
        )

        add_plugin_commands(commands, wanted)
        if wanted in DISTRIBUTIONS and wanted not in commands.choices:
            brings = f"the command {wanted} comes with the distribution {DISTRIBUTIONS[wanted]}"
            parser.error(f"{brings}, which is not installed here, or which the policy refuses")
        if wanted and not wanted.startswith("-") and wanted not in commands.choices:
            parser.error(f"there is no command {wanted}{hint(wanted, commands.choices)}")
        parser.epilog = overview(commands.choices)
    return parser.parse_args(argv)


def make_parser(wanted: Iterable[str], argv: Sequence[str] = ()) -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser and its commands; commands that are not `wanted` have no arguments yet.

    `argv` are the arguments of the wanted one, which may name an engine with options of its own.
    """
    prog = "pai-runtime"  # given wherever argparse would otherwise make a help text to find it out
    parser: argparse.ArgumentParser = Parser(
        prog=prog,
        usage=f"{prog} [-h] [--version] COMMAND ...",
        description="The runtime of deep-learning jobs: check, plan and run a job file.",
    )
    parser.add_argument("--version", action="version", version=f"pai-runtime {__version__}")
    # Shown by their groups instead.
    commands = parser.add_subparsers(prog=prog, metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name, (group, summary, line) in COMMANDS.items():
        command = commands.add_parser(name, description=summary, epilog=example(line), group=group)
        if name in wanted:
            module = import_module(f"{__name__}.{name}")
            module.add_arguments(command)
            if name == "run":
                module.add_engine_options(command, argv)
            command.set_defaults(module=module.__name__)
    return parser, commands


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser with the arguments of all commands, those of the allowed plugins too.

    Raises `InvalidInput` if one of the plugins cannot be imported.
    """
    from pai_runtime.cli.plugin_commands import add_plugin_commands  # noqa: PLC0415 - looks for plugins

    parser, commands = make_parser(COMMANDS)
    add_plugin_commands(commands, None, whole=True)
    return parser
