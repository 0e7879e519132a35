"""Commands that plugins add to ``pai-runtime``, as their manifests say."""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pai_runtime.cli import POLICY_VARIABLE
from pai_runtime.plugin import API_VERSION
from pai_runtime.problems import InvalidInput, Problem

if TYPE_CHECKING:
    from pai_runtime.host.discovery import Plugin, PluginCommand
    from pai_runtime.host.host import Host


def add_plugin_commands(commands: Any, wanted: str | None) -> None:
    """Add those of all plugins that the policy allows; only the plugin of the `wanted` one is imported.

    Raises `InvalidInput` where that is impossible.
    """
    if POLICY_VARIABLE not in os.environ and _add_at_once(commands, wanted):
        return
    from pai_runtime.cli.common import given_host  # noqa: PLC0415 - with what it imports, slow

    host = given_host(None)
    for id_ in host.installed:
        if host.refusal(id_) is None:
            (plugin,) = host.installed[id_]
            for command in plugin.manifest.commands:
                if command.name not in commands.choices:
                    parser = _add(commands, command.name, command.module, command.summary)
                    if command.name == wanted:
                        _add_arguments(host, plugin, command, parser)


def _add(commands: Any, name: str, module: str, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(module=module)
    return parser


def _add_arguments(
    host: "Host", plugin: "Plugin", command: "PluginCommand", parser: argparse.ArgumentParser
) -> None:
    from pai_runtime.host.loading import PluginError, blamed  # noqa: PLC0415

    try:
        host.load(plugin)
        with blamed(plugin, f"command {command.name}"):
            import_module(command.module).add_arguments(parser)
    except PluginError as error:
        raise InvalidInput([Problem(str(error))]) from error


def _add_at_once(commands: Any, wanted: str | None) -> bool:
    """Add the one command that is wanted, without checking all plugins: that takes longer than it does.

    Only where there is no doubt whose it is, and that it is for this runtime; what is wrong with a plugin is
    for the checks to say.
    """
    try:
        (command,) = (
            command
            for manifest in _manifests()
            for command in manifest.get("commands", ())
            if command["name"] == wanted and manifest["api"] == API_VERSION
        )
        module = import_module(command["module"])
        parser = argparse.ArgumentParser(add_help=False)
        module.add_arguments(parser)
        summary = str(command["summary"])
    except (Exception, SystemExit):  # noqa: BLE001 - its author may have put anything anywhere
        return False
    commands.add_parser(wanted, help=summary, description=summary, parents=[parser]).set_defaults(
        module=command["module"]
    )
    return True


def _manifests() -> Iterator[Any]:
    """Those of the packages that are plugins, from what an installer leaves where Python finds modules."""
    for folder in dict.fromkeys(sys.path):
        for file in Path(folder).glob("*.dist-info/entry_points.txt"):
            section = file.read_text("utf-8").partition("[pai_runtime.plugins]\n")[2].partition("\n[")[0]
            for line in section.splitlines():
                package = line.partition("=")[2].strip()
                spec = importlib.util.find_spec(package) if package.isidentifier() else None
                if spec and spec.origin and spec.submodule_search_locations:
                    yield json.loads(Path(spec.origin).with_name("manifest.json").read_bytes())
