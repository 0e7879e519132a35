"""``pai-runtime marketplace``: shared definitions, for their users and authors."""

import argparse
from importlib import import_module
from pathlib import Path

from pai_runtime.command.arguments import add_json, add_policy, setting
from pai_runtime.command.output import say
from pai_runtime.definitions import NoDefinition
from pai_runtime.plugin import Output
from pai_task.exit_codes import CANNOT_RUN

_REFERENCE = "a name, or a reference such as marketplace://name/mnist@1.2, a URL or the path of a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of the command, with their arguments."""
    commands = parser.add_subparsers(prog=parser.prog, metavar="COMMAND", required=True, dest="action")
    list_ = commands.add_parser("list", help="list the definitions of all sources")
    search = commands.add_parser("search", help="list the definitions with all of these words")
    show = commands.add_parser("show", help="show a definition, its variables and what it requires")
    use = commands.add_parser("use", help="print a job that uses a definition")
    add = commands.add_parser("add", help="add a source to your marketplace.yaml")
    remove = commands.add_parser("remove", help="remove a source from your marketplace.yaml")
    check = commands.add_parser("check", help="check definition files, for their authors")
    search.add_argument("words", metavar="WORD", nargs="+", help="looked for in all texts, whatever the case")
    for command in (list_, search):
        command.add_argument("--type", metavar="TYPE", help="only those of this type, such as data or script")
    for command in (show, use):
        command.add_argument("reference", metavar="DEFINITION", help=_REFERENCE)
    for command in (list_, search, show):
        command.add_argument("--source", metavar="NAME", help="look in this source only")
    for command in (list_, search, show, use, add, check):
        add_policy(command)
    use.add_argument(
        "--var",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a variable, in YAML; repeatable",
    )
    _add_arguments_of_add(add)
    remove.add_argument("name", metavar="SOURCE", help="the name of the source")
    check.add_argument("paths", metavar="PATH", type=Path, nargs="+", help="a definition file or a directory")
    check.add_argument("--strict", action="store_true", help="treat warnings as errors")
    for command in (list_, search, show, check):
        add_json(command)


def _add_arguments_of_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "location",
        metavar="LOCATION",
        help="a directory, a definition file, or a URL: of a definition file if it ends in .yaml or .yml, "
        "of the index of a marketplace if it ends in .json, else of OpenPAI's marketplace server",
    )
    parser.add_argument("--name", metavar="NAME", help="what to call it (default: after the location)")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="a file with the token that the server asks for"
    )


def main(args: argparse.Namespace, _output: Output) -> int:
    """Return exit status 0; 1 if a definition or its use is invalid; 2 if there is none such."""
    module = import_module(f"{__name__}.{_MODULES[args.action]}")
    try:
        status: int = module.main(args)
    except NoDefinition as error:
        say(f"{error}")
        return CANNOT_RUN
    return status


_MODULES = {
    "list": "listing",
    "search": "listing",
    "show": "showing",
    "use": "using",
    "add": "adding",
    "remove": "removing",
    "check": "checking",
}
