"""``pai-runtime plugins``: shows what is installed and allowed, and checks plugins and policies."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pai_document.schemas import expectation
from pai_document.yaml_text import yaml_lines
from pai_runtime.cli.arguments import add_debug, add_downgrade, add_json, add_policy
from pai_runtime.cli.plugin_entries import allow, frozen, update
from pai_runtime.host.discovery import Plugin, distribution_code
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.plugin_check import Fault, check_plugins
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.build import OWN_FIELDS
from pai_runtime.job.model import PLUGIN_PREFIX, plugin_id
from pai_runtime.terminal.output import report, report_problems, say, write_json, write_lines
from pai_task.exit_codes import CANNOT_RUN, INVALID

_NOT_PARAMETERS: Final = OWN_FIELDS - {"callbacks"}
"""Fields of a prerequisite that a plugin's parameters can be named as in ``parameters`` only."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of the command, with their arguments."""
    commands = parser.add_subparsers(prog=parser.prog, metavar="COMMAND", required=True, dest="action")
    list_ = commands.add_parser("list", help="list all plugins, and whether each is allowed")
    show = commands.add_parser("show", help="show a plugin's manifest and parameters")
    check = commands.add_parser(
        "check", help="import plugins, and check them by their manifests and examples"
    )
    check_policy = commands.add_parser(
        "check-policy", help="name the entries of the policies that match nothing that is installed"
    )
    allow_ = commands.add_parser("allow", help="print the policy entry that allows a plugin as installed")
    freeze_ = commands.add_parser("freeze", help="print a policy that allows what is installed, with digests")
    digest = commands.add_parser("digest", help="print the policy line that pins a distribution's code")
    how_frozen = freeze_.add_mutually_exclusive_group()
    for command in (list_, show, check, check_policy, how_frozen):
        add_policy(command)
    how_frozen.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="instead, make the entries of this policy match what is installed, whatever it is",
    )
    allow_.add_argument("name", metavar="NAME", help="a plugin's id, its short name, or a distribution")
    allow_.add_argument(
        "--write", type=Path, metavar="FILE", help="put the entry into this policy instead of printing it"
    )
    for command in (allow_, freeze_):
        add_downgrade(command)
    add_json(list_)
    show.add_argument("id", metavar="ID", help="a plugin's id, or its short name")
    check.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="a plugin's id, or its short name (default: all that are allowed)",
    )
    add_debug(check)
    digest.add_argument("distribution", metavar="DISTRIBUTION", help="an installed distribution")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0; 1 if a plugin or a policy fails its check; 2 if there is no such plugin."""
    try:
        if args.action == "digest":
            return _digest(args.distribution)
        if args.action == "allow":
            return allow(args.name, args.write, downgrade=args.allow_downgrade)
        if args.action == "freeze" and args.update:
            return update(args.update, downgrade=args.allow_downgrade)
        return _under_policies(given_host(args.policy), args)
    except Unavailable as error:
        say(f"{error}; did you mean {error.suggestion}?" if error.suggestion else f"{error}")
    except ValueError as error:
        say(f"{error}")
    return CANNOT_RUN


def _under_policies(host: Host, args: argparse.Namespace) -> int:
    if args.action == "list":
        return _list(host, as_json=args.json)
    if args.action == "freeze":
        return frozen(host)
    if args.action == "check-policy":
        return _check_policy(host)
    return _show(host, plugin_id(args.id)) if args.action == "show" else _check(host, args)


def _list(host: Host, *, as_json: bool) -> int:
    rows = [_row(host, plugin) for claimants in host.installed.values() for plugin in claimants]
    if as_json:
        write_json(rows)
        return 0
    for row in rows:
        write_lines(_entry(row))
    write_lines(
        f"warning: {name}: its file {file} runs code whenever Python starts, regardless of the policy"
        for name, files in {row["distribution"]: row["startupFiles"] for row in rows}.items()
        for file in files
    )
    report_problems(list(host.unmatched_entries))
    return 0


def _entry(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{row['id']} ({row['distribution']} {row['version']})"
    yield f"  {row['summary']}"
    if not row["allowed"]:
        yield f"  refused: {row['reason']}"


def _row(host: Host, plugin: Plugin) -> dict[str, Any]:
    reason = host.refusal(plugin.id)
    return {
        "id": plugin.id,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "origin": plugin.origin,
        "api": plugin.manifest.api or None,
        "summary": plugin.manifest.summary,
        "allowed": reason is None,
        "reason": reason,
        "startupFiles": plugin.code.startup_files,
    }


def _show(host: Host, id_: str) -> int:
    if id_ not in host.installed:
        host.find(id_)
    plugin = host.installed[id_][0]
    reason = host.refusal(id_)
    lines = [plugin.id, f"  {plugin.distribution} {plugin.version}, {plugin.origin}, {plugin.location}"]
    lines.append("  allowed" if reason is None else f"  refused: {reason}")
    manifest = plugin.manifest
    lines += [
        f"  {manifest.summary}",
        f"  API {manifest.api}, hooks: {', '.join(manifest.hooks) or 'none'}",
        f"  programs it needs in the image: {', '.join(manifest.programs) or 'none'}",
        "  parameters:",
        *_parameter_lines(manifest.parameters),
    ]
    if "pai_prerequisite" in manifest.hooks:
        for example in manifest.parameters.get("examples", ()):
            lines += ["  example:", *(f"    {line}" for line in yaml_lines([_prerequisite(id_, example)]))]
    write_lines(lines)
    return 0


def _prerequisite(id_: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the prerequisite of a job that uses a plugin with these parameters."""
    inner = {name: value for name, value in parameters.items() if name in _NOT_PARAMETERS}
    return {
        "name": id_.rpartition(".")[2],
        "type": "script",
        "plugin": id_.removeprefix(PLUGIN_PREFIX),
        **{name: value for name, value in parameters.items() if name not in _NOT_PARAMETERS},
        **({"parameters": inner} if inner else {}),
    }


def _parameter_lines(schema: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    for name, parameter in schema.get("properties", {}).items():
        kind = expectation(_target(parameter, schema)) or "any value"
        yield f"    {name}: {kind}{', required' if name in required else ''}"
        if "description" in parameter:
            yield f"      {parameter['description']}"


def _target(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference within the manifest; the schema itself if it is not a reference."""
    reference = schema.get("$ref", "") if isinstance(schema, Mapping) else ""
    if not reference.startswith("#/"):
        return schema
    target: Any = root
    for part in reference.removeprefix("#/").split("/"):
        target = target.get(part, {}) if isinstance(target, Mapping) else {}
    return target


def _check(host: Host, args: argparse.Namespace) -> int:
    if args.id is None:
        plugins = list(host.usable)
    else:
        id_ = plugin_id(args.id)
        claimants = host.installed.get(id_, ())
        plugins = [claimants[0] if len(claimants) == 1 and claimants[0].fault else host.find(id_)]
    found = check_plugins(host, [plugin for plugin in plugins if not plugin.fault])
    status = 0
    for plugin in plugins:
        faults = [Fault("manifest", plugin.fault)] if plugin.fault else found[plugin.id]
        for fault in faults:
            report(f"{'warning: ' if fault.severity == 'warning' else ''}{plugin.label}: {fault.message}")
            if args.debug:
                report(*(f"    {frame}" for frame in fault.frames))
        if any(fault.severity == "error" for fault in faults):
            status = INVALID
        else:
            write_lines([f"OK: {plugin.label} matches its manifest"])
    return status


def _check_policy(host: Host) -> int:
    problems = list(host.unmatched_entries)
    report_problems(problems)
    return INVALID if problems else 0


def _digest(distribution: str) -> int:
    write_lines([f"digest: {distribution_code(distribution).digest}"])
    return 0
