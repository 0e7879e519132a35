"""Commands that plugins add to ``pai-runtime``, as declared in their manifests."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from pai_document.problems import InvalidInput, Problem
from pai_runtime.cli.asked_task import ask_task
from pai_runtime.cli.given_run import NotThere, given_tasks
from pai_runtime.cli.help import example
from pai_runtime.host.blame import PluginError, blamed, stdout_is_stderr
from pai_runtime.host.discovery import Plugin, PluginCommand, declared_commands, read_manifest
from pai_runtime.host.host import Host
from pai_runtime.host.own_modules import import_own
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.plugin import FailedTask, Output, RunningTask, UserError
from pai_runtime.runs.errors import ClusterError
from pai_runtime.terminal import output
from pai_runtime.terminal.output import CannotWrite
from pai_runtime.terminal.text import cut, shown_line
from pai_task.vocabulary import FailedOutcome

DISTRIBUTIONS: Final = {
    "analyze": "pai-failure-analysis",
    "bundle": "pai-pod",
    "completion": "pai-authoring",
    "collectives": "pai-distributed",
    "convert": "pai-job-v1",
    "cp": "pai-runs",
    "diff": "pai-runs",
    "engines add slurm": "pai-slurm",
    "exit-codes": "pai-failure-analysis",
    "init": "pai-pod",
    "lock": "pai-definitions",
    "login": "pai-openpai",
    "lsp": "pai-authoring",
    "marketplace": "pai-definitions",
    "new": "pai-authoring",
    "open": "pai-runs",
    "plugins new": "pai-plugin-kit",
    "plugins verify": "pai-attestations",
    "report": "pai-report",
    "schema": "pai-authoring",
    "stacks": "pai-hang",
}
"""The commands of the built-in plugins, each with what brings it, to name that where it is missing."""

_NOT_ITS_FAULTS: Final = (UserError, InvalidInput, ClusterError, CannotWrite, BrokenPipeError)
"""Exceptions that pass through a plugin's command from what it calls, or say themselves what is wrong."""


def add_plugin_commands(commands: Any, wanted: str | None, *, whole: bool = False) -> None:
    """Add the commands of all allowed plugins; only the plugin of the `wanted` one is imported.

    With `whole`, all of them are. Raises `InvalidInput` if one cannot be imported.
    """
    host = given_host(None, manifests=False)  # to check them all takes longer than most commands
    for id_ in host.installed:
        if host.refusal(id_) is None:
            (plugin,) = host.installed[id_]
            for command in declared_commands(plugin):
                if command.name not in commands.choices:
                    parser = add_plugin_command(commands, command)
                    parser.set_defaults(module=__name__, command=command, plugin=plugin)
                    if whole or command.name == wanted:
                        _add_arguments(host, plugin, command, parser)


def add_plugin_command(commands: Any, command: PluginCommand) -> argparse.ArgumentParser:
    """Add a command without its arguments, and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        command.name, description=command.summary, epilog=example(command.example), group=command.group
    )
    return parser


class _Output:
    """The output for the command of a plugin, through the one writer that escapes untrusted text."""

    def __init__(self, command: str) -> None:
        self._command = command

    columns = property(lambda _: output.columns())
    write_lines = staticmethod(output.write_lines)
    write_json = staticmethod(output.write_json)
    report = staticmethod(output.report)

    @staticmethod
    def log_line(line: bytes, columns: int) -> str:
        return cut(shown_line(line), columns)

    @staticmethod
    def failed_tasks(run: str, task: str | None = None, on: str | None = None) -> Sequence[FailedTask]:
        try:
            given = given_tasks("logs", [run, *filter(None, [task])], on)
        except NotThere as error:
            raise UserError(str(error)) from None
        reader = given.reader
        first = sorted(given.tasks, key=lambda each: each.name != given.run.failed_task)
        # A task that is held after its failure still runs; one that left no record may have failed too.
        return [
            FailedTask(each.name, record, reader.log(each, "user"), reader.log(each, "runtime"))
            for each, record in ((each, reader.exit_record(each)) for each in first)
            if each.state == "failed" or record.get("outcome") in get_args(FailedOutcome)
        ]

    def running_tasks(
        self, run: str, task: str | None = None, on: str | None = None
    ) -> Sequence[RunningTask]:
        try:
            given = given_tasks(self._command, [run, *filter(None, [task])], on)
        except NotThere as error:
            raise UserError(str(error)) from None
        reader = given.reader
        supervisors = [(each, reader.supervisor(each)) for each in given.tasks]
        if found := [
            RunningTask(each.name, pid, partial(ask_task, reader, each))
            for each, pid in supervisors
            if pid is not None or (on is not None and each.state == "running")
        ]:
            return found
        where = "this machine" if on is None else on
        raise UserError(f"no task of {' '.join(filter(None, [run, task]))} is running on {where}")


def main(args: argparse.Namespace) -> int:
    """Return the exit status of a plugin's command. Raises `InvalidInput` if it fails with an exception."""
    command: PluginCommand = args.command
    given: Output = _Output(command.name)
    try:
        with blamed(args.plugin, f"command {command.name}", *_NOT_ITS_FAULTS):
            status: int = import_own(args.plugin.code, command.module).main(args, given)
    except (UserError, PluginError) as error:
        raise InvalidInput([Problem("plugin-error", str(error))]) from error
    return status


def _add_arguments(
    host: Host, plugin: Plugin, command: PluginCommand, parser: argparse.ArgumentParser
) -> None:
    _, fault = read_manifest(plugin.code, plugin.location or Path(), plugin.id)
    if fault:
        raise InvalidInput([Problem("plugin-refused", f"{plugin.label} is refused: {fault}")])
    try:
        with stdout_is_stderr():
            host.load(plugin)
            with blamed(plugin, f"command {command.name}"):
                import_own(plugin.code, command.module).add_arguments(parser)
    except PluginError as error:
        raise InvalidInput([Problem("plugin-error", str(error))]) from error
